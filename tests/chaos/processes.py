"""Processes as /proc shows them: who is below whom, what each is, and how to hit no other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

_KINDS = (
    ("envs_node.actors.desktop.spawner", "spawner"),
    ("actors/verifier/zygote.py", "zygote"),
    ("guest/init.py", "init"),
    ("Xvfb", "xserver"),
    ("openbox", "window-manager"),
    ("envs_node.actors.desktop.guest.server", "guest-server"),
)
"""What stands in a command line, and what that process is to us; the first that fits."""


class Process(msgspec.Struct, frozen=True):
    """A process that lived when it was looked at. Its pid and start name it for good."""

    pid: int
    parent: int
    start_ticks: int
    state: str
    command: str

    @property
    def kind(self) -> str:
        """What it is to us."""
        for mark, kind in _KINDS:
            if mark in self.command:
                return kind
        return "other"

    @property
    def is_alive(self) -> bool:
        """Whether it does more than wait to be reaped."""
        return self.state not in "ZX"


def look(pid: int) -> Process | None:
    """A process, if it is there."""
    folder = Path(f"/proc/{pid}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[19]), fields[0], command.strip())


def look_around() -> Iterator[Process]:
    """Every process of this host."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := look(int(entry.name))) is not None:
            yield found


def below(pids: Iterable[int]) -> list[Process]:
    """All processes below these, nearest first; these themselves are not among them."""
    children: dict[int, list[Process]] = {}
    for process in look_around():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = list(pids)
    while todo:
        for child in children.get(todo.pop(0), ()):
            found.append(child)
            todo.append(child.pid)
    return found


def send(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone. A pid that was given anew is left alone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = look(process.pid)
        if now is None or now.start_ticks != process.start_ticks or not now.is_alive:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
