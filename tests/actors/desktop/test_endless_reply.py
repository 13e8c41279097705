"""A desktop's X server that announces an answer without an end is lost, and fills no memory."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.xserver import REPLY_BYTES_MAX, XConnection
from tests.actors.desktop.looking import inside
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
MIB = 1 << 20


@contextlib.contextmanager
def relay(path: Path, server: Path, lies: threading.Event) -> Iterator[None]:
    """Speaks as the server does, until it lies: every answer is then 16 GiB long."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as behind:
        behind.connect(str(server))
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            client, _ = listener.accept()

            def answer() -> None:
                with contextlib.suppress(OSError):
                    while said := behind.recv(65536):
                        if lies.is_set():
                            said = said[:4] + b"\xff" * 4 + bytes(MIB)
                        client.sendall(said)

            back = threading.Thread(target=answer)
            back.start()
            with client, contextlib.suppress(OSError):
                while asked := client.recv(65536):
                    behind.sendall(asked)
            behind.shutdown(socket.SHUT_RDWR)
            back.join()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def test_an_answer_without_an_end_is_hung_up_on(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.reset(open_task("xterm"))
    server, lies = inside(sandbox, "/tmp/.X11-unix/X0"), threading.Event()
    with relay(tmp_path / "x", server, lies):
        connection = XConnection(tmp_path / "x", 10.0)
        assert connection.has_window_manager()
        lies.set()

        with contextlib.closing(connection), pytest.raises(DesktopLostError, match="X server"):
            connection.windows()

    assert connection.display.display.recv_packet_len <= REPLY_BYTES_MAX, "room is made for so much"
