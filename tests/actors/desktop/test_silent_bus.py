"""A bus that is there and never answers makes a desktop a lost one, in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.desktop.accessibility import AccessibilityBus
from envs_node.actors.desktop.errors import DesktopLostError


@contextlib.contextmanager
def bus(path: Path, *, lets_in: bool) -> Iterator[None]:
    """Takes connections, lets them in or not, and says nothing more."""
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as stack:
        listener.bind(str(path))
        listener.listen()

        def take() -> None:
            with contextlib.suppress(OSError):  # it was closed
                while True:
                    peer = stack.enter_context(listener.accept()[0])
                    if lets_in:
                        peer.recv(1024)
                        peer.sendall(b"DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n")

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("lets_in", [False, True])
def test_a_bus_that_never_answers_is_given_up(tmp_path: Path, lets_in: bool) -> None:
    """Row D3."""
    began_s = time.monotonic()

    with bus(tmp_path / "bus", lets_in=lets_in), pytest.raises(DesktopLostError, match="no access"):
        AccessibilityBus(str(tmp_path / "bus"), "/", timeout_s=0.3)

    assert time.monotonic() - began_s < 3
