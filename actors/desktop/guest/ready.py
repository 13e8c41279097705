"""Waits until one of several sockets has something to say, whatever their numbers are.

`select` knows no descriptor beyond 1023; a host with 200 desktops has more. Used on both sides.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from collections.abc import Sequence

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
_WRITABLE = select.POLLOUT | select.POLLERR


def wait_ready(
    readers: Sequence[socket.socket],
    writers: Sequence[socket.socket] = (),
    timeout_s: float | None = None,
) -> tuple[list[socket.socket], list[socket.socket]]:
    """Those that can be read, or have ended; and those that can be written to.

    Args:
        timeout_s: for ever unless given.

    Raises:
        OSError: one of them is closed.
    """
    masks: dict[int, int] = {}
    for handles, mask in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for handle in handles:
            if handle.fileno() < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            masks[handle.fileno()] = masks.get(handle.fileno(), 0) | mask
    poll = select.poll()
    for number, mask in masks.items():
        poll.register(number, mask)
    found = dict(poll.poll(None if timeout_s is None else math.ceil(max(timeout_s, 0) * 1000)))
    if any(events & select.POLLNVAL for events in found.values()):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return (
        [handle for handle in readers if found.get(handle.fileno(), 0) & _READABLE],
        [handle for handle in writers if found.get(handle.fileno(), 0) & _WRITABLE],
    )
