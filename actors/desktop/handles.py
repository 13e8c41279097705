"""Descriptors that come through a socket. Stdlib only."""

from __future__ import annotations

import socket
import struct


def receive(channel: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive bytes, and a descriptor if one comes with them; no child inherits it."""
    # Of socket.recv_fds the flags have no effect in Python 3.11.
    room = socket.CMSG_LEN(struct.calcsize("i"))
    data, notes, _, _ = channel.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    handles = [
        handle
        for level, kind, words in notes
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        for (handle,) in struct.iter_unpack("i", words)
    ]
    return data, handles
