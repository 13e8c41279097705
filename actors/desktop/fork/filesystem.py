"""A file system that is mounted nowhere. Stdlib only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # the same on every architecture
_CLOEXEC, _SET_STRING, _CREATE = 1, 1, 6
_libc = ctypes.CDLL(None, use_errno=True)


def make_file_system(kind: str, options: Mapping[str, str]) -> int:
    """A descriptor of a new file system that is mounted nowhere, and gone with its last user.

    Raises:
        OSError: the kernel has no such kind, or not these options.
    """
    context = _call(_FSOPEN, kind.encode(), _CLOEXEC)
    try:
        for name, value in options.items():
            _call(_FSCONFIG, context, _SET_STRING, name.encode(), value.encode(), 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        handle = _call(_FSMOUNT, context, _CLOEXEC, 0)
    finally:
        os.close(context)
    try:  # what was mounted is a path alone; a folder opened through it can be read, too
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
    finally:
        os.close(handle)


def _call(number: int, *words: object) -> int:
    result = int(_libc.syscall(number, *words))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number}: {os.strerror(error)}")
    return result
