"""A client of an X server that takes its pictures through shared memory, with the standard library.

The memory is ours: a sealed memfd, handed to the server by MIT-SHM's AttachFd. Nobody can cut it
off, so that a mapping of it is safe to read, and the server copies the screen into it between two
requests, never in the midst of one. Used on both sides: by the host for every frame, in the
desktop for `/screenshot`. Every wait has a deadline; whatever goes wrong is an `OSError`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
import time

from envs_node.actors.desktop.guest.ready import wait_ready

_LITTLE, _PROTOCOL = 0x6C, 11
_GET_GEOMETRY, _QUERY_POINTER, _GET_INPUT_FOCUS, _QUERY_EXTENSION = 14, 38, 43, 98
_SHM_QUERY_VERSION, _SHM_DETACH, _SHM_GET_IMAGE, _SHM_ATTACH_FD = 0, 2, 4, 6
_DAMAGE_QUERY_VERSION, _DAMAGE_CREATE, _DAMAGE_SUBTRACT = 0, 1, 3
_REPORT_NON_EMPTY = 3
_Z_PIXMAP, _ALL_PLANES = 2, 0xFFFFFFFF
_ERROR, _REPLY, _GENERIC_EVENT = 0, 1, 35
_REPLY_BYTES_MAX = 1 << 20
"""No answer that we ask for is longer; a server that announces more is none."""


class XClient:
    """One connection to an X server, and the memory into which its screen is copied.

    Call from one thread at a time.
    """

    def __init__(self, path: str, timeout_s: float = 5.0) -> None:
        """Connect, and share memory for the whole screen.

        Args:
            path: the server's unix socket.
            timeout_s: how long any single answer may take.
        """
        self._timeout_s = timeout_s
        self._sequence = 0
        self._damage_event = -1
        self._is_damaged = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.memory = -1
        """Descriptor of the memory."""
        self.pixels: mmap.mmap | None = None
        """The last picture taken, row by row, four bytes a pixel: blue, green, red, nothing."""
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(path)
            self._set_up()
            self._share()
            self._watch()
        except BaseException:
            self.close()
            raise

    def has_changed(self) -> bool:
        """Whether anything was drawn since the last picture was taken."""
        if not self._is_damaged:
            self._ask(struct.pack("<BxH", _GET_INPUT_FOCUS, 1))  # what came before it has been read
        return self._is_damaged

    def take(self) -> None:
        """Take a picture of all that was drawn before: by requests of ours, or by those answered.

        Raises:
            OSError: the server does not answer in time, or its screen has another size now.
        """
        self._is_damaged = False
        requests = (
            struct.pack("<BBHIII", self._damage_code, _DAMAGE_SUBTRACT, 4, self._damage, 0, 0),
            struct.pack("<BxHI", _GET_GEOMETRY, 2, self._root),
            struct.pack(
                "<BBHIhhHHIBxxxII", self._shm_code, _SHM_GET_IMAGE, 8, self._root, 0, 0,
                self.width, self.height, _ALL_PLANES, _Z_PIXMAP, self._segment, 0,
            ),
        )  # fmt: skip
        self._sequence += len(requests)
        self._socket.sendall(b"".join(requests))  # at once: the server wakes up once
        deadline = time.monotonic() + self._timeout_s
        width, height = struct.unpack_from("<HH", self._answer(self._sequence - 1, deadline), 16)
        if (width, height) != (self.width, self.height):
            raise OSError(f"the screen of {self.width}x{self.height} is {width}x{height} now")
        self._answer(self._sequence, deadline)

    def pointer(self) -> tuple[int, int]:
        """Where the pointer is, in px from the top left corner.

        Raises:
            OSError: the server does not answer in time.
        """
        answer = self._ask(struct.pack("<BxHI", _QUERY_POINTER, 2, self._root))
        x, y = struct.unpack_from("<hh", answer, 16)
        return x, y

    def detach(self) -> None:
        """Have the server forget the memory, and hang up.

        Raises:
            OSError: it does not say that it did.
        """
        self._send(struct.pack("<BBHI", self._shm_code, _SHM_DETACH, 2, self._segment))
        self._ask(struct.pack("<BxH", _GET_INPUT_FOCUS, 1))
        self.close()

    def close(self) -> None:
        """Hang up without waiting. Twice does no harm."""
        self._socket.close()
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1
        self.pixels = None  # whoever still reads the mapping keeps it

    def _set_up(self) -> None:
        self._socket.sendall(struct.pack("<BxHHHHxx", _LITTLE, _PROTOCOL, 0, 0, 0))
        deadline = time.monotonic() + self._timeout_s
        status, words = struct.unpack("<BxxxxxH", self._read(8, deadline))
        body = self._read(4 * words, deadline)
        if status != 1:
            raise ConnectionRefusedError(f"the X server refuses: {body[:80]!r}")
        self._segment, _, _, vendor_bytes = struct.unpack_from("<4xIIIH", body)
        self._damage = self._segment + 1
        first = 32 + (vendor_bytes + 3 & ~3) + 8 * body[21]
        self._root, self.width, self.height = struct.unpack_from("<I16xHH", body, first)
        if self.width == 0 or self.height == 0:
            raise OSError(f"the X server has a screen of {self.width}x{self.height}")

    def _share(self) -> None:
        self._shm_code, _ = self._extension(b"MIT-SHM")
        version = self._ask(struct.pack("<BBH", self._shm_code, _SHM_QUERY_VERSION, 1))
        if struct.unpack_from("<HH", version, 8) < (1, 2):
            raise OSError("the X server takes no shared memory by descriptor")
        size_bytes = self.width * self.height * 4
        self.memory = os.memfd_create("frame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(self.memory, 0, size_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.memory, fcntl.F_ADD_SEALS, seals)
        self.pixels = mmap.mmap(self.memory, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        request = struct.pack("<BBHIBxxx", self._shm_code, _SHM_ATTACH_FD, 3, self._segment, 0)
        socket.send_fds(self._socket, [request], [self.memory])
        self._sequence += 1
        self._ask(struct.pack("<BxH", _GET_INPUT_FOCUS, 1))  # a refusal would come before this

    def _watch(self) -> None:
        """Have it told when something is drawn anywhere on the screen."""
        self._damage_code, self._damage_event = self._extension(b"DAMAGE")
        self._ask(struct.pack("<BBHII", self._damage_code, _DAMAGE_QUERY_VERSION, 3, 1, 1))
        whole = (self._damage, self._root, _REPORT_NON_EMPTY)
        self._send(struct.pack("<BBHIIBxxx", self._damage_code, _DAMAGE_CREATE, 4, *whole))
        self._ask(struct.pack("<BxH", _GET_INPUT_FOCUS, 1))

    def _extension(self, name: bytes) -> tuple[int, int]:
        """Its code in requests, and that of its first event."""
        padded = name.ljust(len(name) + 3 & ~3, b"\0")
        words = 2 + len(padded) // 4
        answer = self._ask(struct.pack("<BxHHxx", _QUERY_EXTENSION, words, len(name)) + padded)
        is_there, code, event = struct.unpack_from("<BBB", answer, 8)
        if not is_there:
            raise OSError(f"the X server has no {name.decode()}")
        return code, event

    def _send(self, request: bytes) -> None:
        self._socket.sendall(request)
        self._sequence += 1

    def _ask(self, request: bytes) -> bytes:
        """Send a request, and wait for its answer."""
        self._send(request)
        return self._answer(self._sequence, time.monotonic() + self._timeout_s)

    def _answer(self, number: int, deadline: float) -> bytes:
        """The answer to a request, taking in what else comes before it."""
        while True:
            head = self._read(32, deadline)
            kind, code, sequence, words = struct.unpack_from("<BBHI", head)
            if kind == _ERROR:
                raise OSError(f"the X server refuses request {sequence}: error {code}")
            if kind in (_REPLY, _GENERIC_EVENT):
                head += self._read(4 * words, deadline)
            if kind == _REPLY and sequence == number & 0xFFFF:
                return head
            if kind & 0x7F == self._damage_event:
                self._is_damaged = True

    def _read(self, size_bytes: int, deadline: float) -> bytes:
        """Exactly so many bytes. A server that sends one now and then is late all the same."""
        if size_bytes > _REPLY_BYTES_MAX:
            raise OSError(f"an answer of {size_bytes} bytes")
        data = bytearray()
        while len(data) < size_bytes:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not wait_ready([self._socket], timeout_s=left_s)[0]:
                raise TimeoutError(f"the X server has not answered within {self._timeout_s:g} s")
            part = self._socket.recv(size_bytes - len(data))
            if not part:
                raise ConnectionError("the X server has hung up")
            data += part
        return bytes(data)
