"""Tasks without a purpose, and what a desktop leaves on its host: for benchmarks."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import structlog

from envs_node.messages.base import TaskId
from envs_node.messages.tasks import Task

APPLICATIONS = {
    "nothing": (),
    "mousepad": ("mousepad",),
    "calc": ("libreoffice", "--calc"),
    "chromium": ("google-chrome",),
}


def make_task(argv: tuple[str, ...]) -> Task:
    """A task whose set-up starts a program, or does nothing."""
    steps = [{"type": "launch", "parameters": {"command": list(argv)}}] if argv else []
    return Task(
        id=TaskId("benchmark"), instruction="", template="benchmark", split="train", apps=(),
        sha256="", json=json.dumps({"config": steps}).encode(), files=(),
    )  # fmt: skip


def quiet_logs() -> None:
    """Keep what is told of each launch out of the report."""
    wrapper = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=wrapper)


class Traces:
    """What is on the host because of one desktop: its processes, control groups and mounts."""

    def __init__(self, pid: int, folders: set[str], mounts: frozenset[str], sockets: int) -> None:
        space = os.readlink(f"/proc/{pid}/ns/pid")
        self.processes = {name for name in _numbers() if _space(name) == space} | {str(pid)}
        self._folders, self._mounts, self._sockets = folders, mounts, sockets

    def left(self) -> list[str]:
        """What of it is still there."""
        found = [
            f"process {name}" for name in sorted(self.processes) if Path("/proc", name).exists()
        ]
        found += [f"control group {path}" for path in self._folders if Path(path).exists()]
        if not mounts() <= self._mounts:
            found.append("a mount")
        if sockets() > self._sockets:
            found.append("a socket of this process")
        return found


def mounts() -> frozenset[str]:
    """The mounts of the kinds that a desktop makes, as the host sees them."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if " - overlay " in line or "desktop" in line)


def sockets() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def _numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _space(name: str) -> str:
    try:
        return os.readlink(f"/proc/{name}/ns/pid")
    except OSError:
        return ""
