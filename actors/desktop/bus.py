"""A connection to a D-Bus bus inside a desktop, which believes nothing that is said there.

Every answer must have the signature that was asked for, a bounded size, and come in time. What is
anything else counts as no answer; what is no D-Bus at all means that the desktop is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, MessageType, new_method_call
from jeepney.low_level import Header, Message, calc_msg_size

from envs_node.actors.desktop.doors import connect_inside
from envs_node.actors.desktop.errors import DesktopLostError

MESSAGE_BYTES_MAX = 4 << 20
"""An answer larger than this is not read. 16,000 things of an application fit into it."""
BYTES_MAX = 16 << 20
"""The answers of one look together (`Bus.begin`). What comes beyond is not read."""
_HEADER_BYTES_MAX = 64 << 10
_CHUNK_BYTES = 1 << 18
_BATCH = 500
"""Questions on their way at once: a bus that is asked more without being read may hang up."""
_GREET_S = 1.0
_POLL_S = 0.003
_GREETING_BYTES_MAX = 1024
_HELLO = new_method_call(
    DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus"), "Hello"
)
_GARBAGE = (
    struct.error, ValueError, KeyError, IndexError, TypeError, AssertionError, RecursionError
)  # fmt: skip
"""What jeepney's parser raises for bytes that are no message."""


class Call(NamedTuple):
    """A question, and of what kind its answer must be."""

    bus: str
    path: str
    interface: str
    method: str
    signature: str | None
    body: tuple[Any, ...]
    answers: tuple[str, ...]
    """Signatures of a believable answer."""


class Bus:
    """One connection. Every call blocks, until a deadline that it is given at the latest."""

    def __init__(self, path: str) -> None:
        """Connect and be let in.

        Raises:
            OSError: nobody is there, or nobody lets us in (`TimeoutError`).
            EOFError: it hung up.
        """
        self._serials = itertools.count(1)
        self._buffer = bytearray()
        self._skip_bytes = 0
        self.is_cut = False
        """Whether an answer was too large, or all together, since somebody last began anew."""
        self._left_bytes = BYTES_MAX
        self._socket = connect_bus(path, time.monotonic() + _GREET_S)
        try:
            if self._ask_some([_hello()], time.monotonic() + _GREET_S)[0] is None:
                raise TimeoutError("the bus does not greet")
        except BaseException:
            self._socket.close()
            raise

    def begin(self) -> None:
        """Count from here: what is asked from now on is one look."""
        self.is_cut, self._left_bytes = False, BYTES_MAX

    def ask(self, calls: Sequence[Call], deadline_s: float) -> list[Any]:
        """Ask all, then collect the answers' bodies; None where there is none to be believed.

        Args:
            deadline_s: on the monotonic clock. What is not answered by then stays None.

        Raises:
            DesktopLostError: the bus is gone, takes nothing in, or talks nonsense.
        """
        answers: list[Any] = []
        try:
            for start in range(0, len(calls), _BATCH):
                batch = calls[start : start + _BATCH]
                is_late = time.monotonic() >= deadline_s
                answers += [None] * len(batch) if is_late else self._ask_some(batch, deadline_s)
        except (OSError, EOFError) as error:
            raise DesktopLostError(f"a bus of the desktop is gone: {error}") from error
        return answers

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _ask_some(self, calls: Sequence[Call], deadline_s: float) -> list[Any]:
        waiting: dict[int, int] = {}
        request = bytearray()
        for place, call in enumerate(calls):
            serial = next(self._serials)
            address = DBusAddress(call.path, call.bus, call.interface)
            message = new_method_call(address, call.method, call.signature, call.body)
            try:
                request += message.serialise(serial=serial)
            except ValueError:  # somebody in the desktop made up that path
                continue
            waiting[serial] = place
        answers: list[Any] = [None] * len(calls)
        if not waiting:
            return answers
        self._socket.settimeout(max(0.001, deadline_s - time.monotonic()))
        self._socket.sendall(request)
        for header, raw in self._receive(deadline_s):
            place = waiting.pop(header.fields.get(HeaderFields.reply_serial), -1)
            is_answer = header.message_type == MessageType.method_return
            if place >= 0 and is_answer and raw:
                kind = header.fields.get(HeaderFields.signature, "")
                if kind in calls[place].answers:
                    answers[place] = _parse(raw)
            if not waiting:
                break
        return answers

    def _receive(self, deadline_s: float) -> Iterator[tuple[Header, bytes]]:
        """Messages as they come; of one that is too large the header alone."""
        while True:
            while (message := self._take()) is not None:
                yield message
            if (left_s := deadline_s - time.monotonic()) <= 0:
                return
            self._socket.settimeout(left_s)
            try:
                chunk = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError:
                return
            if not chunk:
                raise EOFError("it hung up")
            skipped = min(self._skip_bytes, len(chunk))
            self._skip_bytes -= skipped
            self._buffer += chunk[skipped:]

    def _take(self) -> tuple[Header, bytes] | None:
        """The first message of what has come, if it is whole or too large."""
        if len(self._buffer) < 16:
            return None
        try:
            size = calc_msg_size(bytes(self._buffer[:16]))
            order = "<" if self._buffer[:1] == b"l" else ">"
            (head,) = struct.unpack_from(f"{order}I", self._buffer, 12)
            if head > _HEADER_BYTES_MAX:
                raise ValueError(f"a header of {head} bytes")
            is_large = size > min(MESSAGE_BYTES_MAX, self._left_bytes)
            if len(self._buffer) < (16 + head if is_large else size):
                return None
            header, _ = Header.from_buffer(bytes(self._buffer[: min(size, 16 + head)]))
        except _GARBAGE as error:
            raise EOFError(f"it talks nonsense: {error!r:.100}") from error
        self.is_cut = self.is_cut or is_large
        raw = b"" if is_large else bytes(self._buffer[:size])
        self._left_bytes -= len(raw)
        self._skip_bytes = max(0, size - len(self._buffer))
        del self._buffer[:size]
        return header, raw


def _parse(raw: bytes) -> Any:
    try:
        return Message.from_buffer(raw).body
    except _GARBAGE:
        return None


def _hello() -> Call:
    fields = _HELLO.header.fields
    return Call(
        fields[HeaderFields.destination], fields[HeaderFields.path],
        fields[HeaderFields.interface], fields[HeaderFields.member], None, (), ("s",),
    )  # fmt: skip


def connect_bus(path: str, deadline_s: float) -> socket.socket:
    """A socket of a bus that has let us in, as whom the kernel says we are.

    In a user namespace we have another number than here, so we do not name any.

    Raises:
        OSError: nobody is there, or nobody lets us in.
        EOFError: it hung up.
    """
    handle = socket.socket(socket.AF_UNIX)
    try:
        handle.settimeout(max(deadline_s - time.monotonic(), 0.001))
        connect_inside(handle, path)
        handle.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
        answer = b""
        while answer.count(b"\r\n") < 2:
            handle.settimeout(max(deadline_s - time.monotonic(), 0.001))
            piece = handle.recv(_GREETING_BYTES_MAX)
            answer += piece
            if not piece or len(answer) > _GREETING_BYTES_MAX:
                raise EOFError(f"the bus does not let us in: {answer[:80]!r}")
        if not answer.startswith(b"DATA\r\nOK "):
            raise OSError(f"the bus does not let us in: {answer[:80]!r}")
        handle.settimeout(None)
    except BaseException:
        handle.close()
        raise
    return handle


def find_accessibility_bus(session_bus: str, root: str, timeout_s: float) -> Bus:
    """Connect to a desktop's accessibility bus as soon as it answers.

    Args:
        session_bus: path of the session bus's socket, as the host sees it.
        root: the desktop's root, as the host sees it.

    Raises:
        DesktopLostError: it did not come up in time.
    """
    deadline_s = time.monotonic() + timeout_s
    problem: object = "the session bus has not greeted"
    while time.monotonic() < deadline_s:
        try:
            with contextlib.closing(Bus(session_bus)) as session:
                if path := _bus_path(session, deadline_s):
                    return Bus(f"{root}{path}")
                problem = "the launcher does not own its name"
        except (OSError, EOFError, DesktopLostError) as error:
            problem = error
        time.sleep(_POLL_S)
    raise DesktopLostError(f"no accessibility bus: {problem}")


def _bus_path(session: Bus, deadline_s: float) -> str:
    """Where the accessibility bus listens, once its launcher is there.

    To ask for the address sooner would have D-Bus start a second launcher.
    """
    name = "org.freedesktop.DBus"
    has_owner = Call(
        name, "/org/freedesktop/DBus", name, "NameHasOwner", "s", ("org.a11y.Bus",), ("b",)
    )
    address = ("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus")
    question = Call(*address, "GetAddress", None, (), ("s",))
    while session.ask([has_owner], deadline_s)[0] == (False,):
        time.sleep(_POLL_S)
    answer = session.ask([question], deadline_s)[0]
    options = answer[0].partition(":")[2].split(",") if answer else []
    return next((word[5:] for word in options if word.startswith("path=")), "")
