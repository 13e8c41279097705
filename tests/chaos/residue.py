"""What a run left on the host: processes, mounts, control groups, sockets, temporary files."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from envs_node.actors.desktop.kernel import control
from tests.chaos.processes import Process, below, look_around

_SET_CHILD_SUBREAPER = 36


class Residue:
    """Compares the host before and after. While it is held, no orphan of ours can get away.

    This process becomes the subreaper of all it starts: whatever loses its parent becomes our
    child, so that what is left is found by its parent and not by its name.

    Args:
        folder: of the run; no socket may stay in it.
        places: where no file at all may stay.
    """

    def __init__(self, folder: Path, *places: Path, settle_s: float = 20.0) -> None:
        self._settle_s = settle_s
        self._folder = folder
        self._places = places
        self._mounts = _mounts()
        self._groups = _control_groups()
        self._children = {child.pid for child in _children()}

    def __enter__(self) -> Self:
        control(_SET_CHILD_SUBREAPER, 1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        control(_SET_CHILD_SUBREAPER, 0)
        self._reap()

    def left(self) -> list[str]:
        """A line for each thing that is still there after everything was stopped."""
        deadline = time.monotonic() + self._settle_s
        while self._living() and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.1)
        found = [f"process {p.pid} {p.state} {p.command[:120]}" for p in self._living()]
        found += [f"mount {m}" for m in sorted(_mounts() - self._mounts) if self._may_be_ours(m)]
        made = sorted(_control_groups() - self._groups)
        found += [f"control group {place}" for place in made if not _is_owned(place)]
        found += [f"socket {p}" for p in sorted(self._folder.rglob("*")) if p.is_socket()]
        for place in self._places:
            found += [f"file {p}" for p in sorted(place.rglob("*")) if not p.is_dir()]
        return found

    def _may_be_ours(self, mount: str) -> bool:
        """Tests that run beside us mount in temporary folders of their own."""
        ours = map(str, (self._folder, *self._places))
        return not mount.startswith(tempfile.gettempdir()) or mount.startswith(tuple(ours))

    def _orphans(self) -> list[Process]:
        return [child for child in _children() if child.pid not in self._children]

    def _living(self) -> list[Process]:
        orphans = self._orphans()
        return [p for p in (*orphans, *below([p.pid for p in orphans])) if p.is_alive]

    def _reap(self) -> None:
        for orphan in self._orphans():
            if not orphan.is_alive:
                try:
                    os.waitpid(orphan.pid, os.WNOHANG)
                except ChildProcessError:
                    continue


def _children() -> list[Process]:
    return [process for process in look_around() if process.parent == os.getpid()]


def _mounts() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines}


def _is_owned(group: str) -> bool:
    """Whether the process lives that a group is named after: then it is of a run beside ours."""
    owner = re.search(r"envs-node-(?:unowned-)?(\d+)", group)
    return owner is not None and Path("/proc", owner[1]).exists()


def _control_groups() -> set[str]:
    root = Path("/sys/fs/cgroup")
    return {where for where, _, _ in os.walk(root) if "envs" in where}
