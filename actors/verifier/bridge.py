"""Leads from the judging process to one machine elsewhere, and to nothing else.

A desktop of this host has a network that the judging process enters. A machine has none here: the
judging process gets a network of its own, empty but for 127.0.0.1:5000, where this relay answers
and carries bytes to the machine's server. The relay stays outside, as a user to whom nothing
belongs.

Loaded by file in the checker's own Python; knows nothing of envs_node.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Any

_PORT = 5000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CONNECT_S = 5.0
_CONNECTIONS_MAX = 32
_CHUNK_BYTES = 64 << 10


def start(machine: dict[str, Any], uid: int, jail: Any, closed: int) -> socket.socket:
    """Fork the relay, before this process enters another network. What is returned is for `open`.

    Args:
        machine: `host` and `port` of the one server that it leads to.
        uid: who the relay becomes, if it may.
        jail: the module of that name.
        closed: a descriptor that it must not hold open.
    """
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            jail.die_with_parent()
            os.close(closed)
            ours.close()
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                jail.die_with_parent()
            jail.gain_nothing()
            _, handles, _, _ = socket.recv_fds(theirs, 1, 1)
            if handles:
                _relay(socket.socket(fileno=handles[0]), (machine["host"], machine["port"]))
        finally:
            os._exit(0)
    theirs.close()
    return ours


def open_door(relay: socket.socket) -> None:
    """Listen in the network that this process is in now, and hand that to the relay."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        name = b"lo".ljust(16, b"\0")
        flags = struct.unpack_from("=h", fcntl.ioctl(door, _SIOCGIFFLAGS, name + bytes(24)), 16)[0]
        fcntl.ioctl(door, _SIOCSIFFLAGS, name + struct.pack("=h22x", flags | _IFF_UP))
        door.bind(("127.0.0.1", _PORT))
        door.listen(_CONNECTIONS_MAX)
        socket.send_fds(relay, [b"x"], [door.fileno()])
    relay.close()


def _relay(door: socket.socket, machine: tuple[str, int]) -> None:
    turns = threading.BoundedSemaphore(_CONNECTIONS_MAX)
    while True:
        near, _ = door.accept()
        turns.acquire()
        threading.Thread(target=_carry, args=(near, machine, turns), daemon=True).start()


def _carry(near: socket.socket, machine: tuple[str, int], turns: threading.Semaphore) -> None:
    """Carry one connection, both ways, until both ends are done."""
    with near, suppress(OSError), socket.create_connection(machine, _CONNECT_S) as far:
        far.settimeout(None)
        ways = {near: far, far: near}
        while ways:
            for source in select.select(list(ways), [], [])[0]:
                data = source.recv(_CHUNK_BYTES)
                if data:
                    ways[source].sendall(data)
                else:
                    ways.pop(source).shutdown(socket.SHUT_WR)
    turns.release()
