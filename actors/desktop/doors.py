"""Ways from the host into a desktop's files that no link in there can lead astray.

A path like `/proc/PID/root/run/x` is walked by the host: a symbolic link on it, which the desktop's
user may put there at any moment, would be followed among the host's own files.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import stat
import struct
from contextlib import closing
from pathlib import Path

_OPENAT2 = 437  # on every machine
_UNKNOWN = (errno.ENOSYS, errno.EPERM)
"""Says a kernel, or a container's filter, that is older than this call. What remains then is to
look at the last part of the path: the folders on the way there are root's."""
_NO_LINKS, _IN_ROOT = 0x04, 0x10
_ROOT = re.compile(r"(/proc/[0-9]+/root)/+(.*)", re.DOTALL)


def open_inside(path: str | Path, flags: int = os.O_PATH) -> int:
    """Open a file of a desktop; one of the host's own like anybody would.

    Raises:
        OSError: it is not there, or there is a link on the way.
    """
    inside = _ROOT.fullmatch(str(path))
    if inside is None:
        return os.open(path, flags | os.O_CLOEXEC)
    root = os.open(inside[1], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _NO_LINKS | _IN_ROOT)
        handle = libc.syscall(_OPENAT2, root, os.fsencode(inside[2]), how, ctypes.c_size_t(24))
        if handle < 0:
            number = ctypes.get_errno()
            if number in _UNKNOWN:
                return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
            raise OSError(number, os.strerror(number), str(path))
        return int(handle)
    finally:
        os.close(root)


def connect_inside(handle: socket.socket, path: str | Path) -> None:
    """Connect to a unix socket of a desktop.

    Raises:
        OSError: nobody listens there, or there is a link on the way.
    """
    door = open_inside(path)
    try:
        handle.connect(f"/proc/self/fd/{door}")
    finally:
        os.close(door)


def read_inside(path: str | Path, last_bytes: int) -> str:
    """The end of a plain file of a desktop; nothing of what is none, and would let us wait."""
    try:
        with closing(os.fdopen(open_inside(path, os.O_RDONLY | os.O_NONBLOCK), "rb")) as source:
            status = os.fstat(source.fileno())
            if not stat.S_ISREG(status.st_mode):
                return ""
            source.seek(max(0, status.st_size - last_bytes))
            return source.read(last_bytes).decode(errors="replace")
    except OSError:
        return ""
