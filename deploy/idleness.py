"""Whether the processors of this host have nothing to do, from one look to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_SPARE_CPUS_MIN = 0.7
"""Starting a desktop keeps one processor busy."""


class Idleness:
    """Remembers the last look. One a watcher."""

    def __init__(self, read: Callable[[], str] = Path("/proc/stat").read_text) -> None:
        self._read = read
        self._before = self._times()

    def sample(self) -> bool:
        """Whether most of a processor was spare since the last look."""
        before, self._before = self._before, self._times()
        (idle, whole, cpus), (idle_before, whole_before, _) = self._before, before
        ticks = whole - whole_before
        return ticks > 0 and cpus * (idle - idle_before) / ticks >= _SPARE_CPUS_MIN

    def _times(self) -> tuple[int, int, int]:
        """Ticks idle, ticks in all, and how many processors there are."""
        lines = self._read().splitlines()
        user, nice, system, idle, iowait, *more = map(int, lines[0].split()[1:9])
        cpus = sum(line.startswith("cpu") for line in lines[1:])
        return idle + iowait, user + nice + system + idle + iowait + sum(more), cpus
