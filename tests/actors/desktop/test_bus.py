"""What a desktop's bus may say in one look is bounded in sum, whoever says it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from jeepney import HeaderFields, new_method_return
from jeepney.low_level import Parser

from envs_node.actors.desktop.bus import BYTES_MAX, Bus, Call

TEXT = "x" * (3 << 20)
CALL = Call(":1.7", "/text", "org.a11y.atspi.Text", "GetText", "ii", (0, -1), ("s",))


@contextlib.contextmanager
def wordy_bus(path: Path) -> Iterator[None]:
    """Answers every question with three million letters."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                said = b""
                while not said.endswith(b"BEGIN\r\n"):
                    said += peer.recv(1024)
                peer.sendall(b"DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n")
                parser = Parser()
                while chunk := peer.recv(1024):
                    parser.add_data(chunk)
                    while (call := parser.get_next_message()) is not None:
                        is_greeting = call.header.fields[HeaderFields.member] == "Hello"
                        text = ":1.1" if is_greeting else TEXT
                        answer = new_method_return(call, "s", (text,))
                        peer.sendall(answer.serialise(serial=1))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def test_answers_beyond_their_sum_are_not_kept_and_that_is_said(tmp_path: Path) -> None:
    with wordy_bus(tmp_path / "bus"), contextlib.closing(Bus(str(tmp_path / "bus"))) as bus:
        looks = []
        for _ in range(2):
            bus.begin()
            assert not bus.is_cut
            looks.append(bus.ask([CALL] * 8, time.monotonic() + 60))

        assert bus.is_cut
        for answers in looks:
            kept = [answer[0] for answer in answers if answer is not None]
            assert answers[0] is not None
            assert sum(map(len, kept)) <= BYTES_MAX
            assert len(kept) == BYTES_MAX // len(TEXT)
