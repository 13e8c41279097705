"""Looks into a desktop from the host, and waits until something is so."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.sandbox import Sandbox


def inside(sandbox: Sandbox, path: str) -> Path:
    """A file of a desktop, as this host sees it."""
    return Path(f"/proc/{sandbox.guest_pid}/root{path}")


def shell(sandbox: Sandbox, command: str) -> str:
    """What a shell command in the desktop prints."""
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=20)
    answer = json.loads(guest.post("/execute", {"command": command, "shell": True}))
    return str(answer["output"] + answer["error"])


def wait_until(claim: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def numbers_inside(pid: int, program: str) -> list[int]:
    """The host's numbers of the processes of this name in the process namespace of another."""
    space = os.readlink(f"/proc/{pid}/ns/pid")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == space:
                comm = Path(f"/proc/{name}/comm").read_text().strip()
                found += [int(name)] if comm == program else []
        except OSError:
            continue
    return found
