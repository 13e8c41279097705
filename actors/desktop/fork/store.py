"""The fork points of one node: by key, within a budget of memory, the least used given up first.

with store.borrowed(keys) as (depth, point):     # the deepest there is
    pid = store.restore(point, kind)             # a clone of it
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec
import structlog

from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError, LauncherError
from envs_node.actors.desktop.fork.forker import Dump
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.messages.desktop import Observation

UNUSED_S_MAX = 600.0
"""A point that nobody asked for so long is of a task whose search is over, or as good as."""
LEFT_S_MAX = 60.0
"""The same of a task that no desktop is at: it is over, or waits for its turn."""
_FIRST_BYTES = 256 << 20
"""What a fork point is expected to take before there was one."""
_FAILURES_MAX = 5
"""So many clones in a row that were not what they should be: there is no point in more."""

_log = structlog.get_logger(__name__)


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a desktop beside its memory and its files."""

    parts: Mapping[str, int]
    """The programs without which it is no desktop, with their pids as it counts."""
    seen: tuple[Observation, ...]
    """At the start, and after each action up to here."""
    frames: Mapping[str, bytes]
    """The pictures that go with these, packed."""
    task: str = ""
    """The key of its task's start."""


class ForkPoint(msgspec.Struct, kw_only=True):
    """A desktop as it was."""

    key: str
    dump: Dump
    notes: Notes
    used_s: float
    pins: int = 0
    is_evicted: bool = False

    @property
    def size_bytes(self) -> int:
        """What it takes: memory, files and pictures, also those that other points have, too."""
        return self.dump.size_bytes + sum(map(len, self.notes.frames.values()))


class Forking(Protocol):
    """What writes desktops out and brings them back."""

    def dump(self, pid: int, *, bytes_max: int) -> Dump:
        """Write a desktop out; it goes on."""

    def restore(self, point: int, kind: DesktopKind) -> int:
        """Bring a clone back."""

    def drop(self, point: int) -> None:
        """Give a fork point up."""


class ForkStore:
    """Safe to use from several threads.

    Args:
        bytes_max: what all fork points may take together.
        available_bytes: the memory that may be taken for what can be made again.
    """

    def __init__(
        self,
        forking: Forking,
        *,
        bytes_max: int,
        available_bytes: Callable[[], int] = lambda: 1 << 62,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._forking = forking
        self._bytes_max = bytes_max
        self._available_bytes = available_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._points: dict[str, ForkPoint] = {}
        self._making: set[str] = set()
        self._tasks: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self._expected_bytes = _FIRST_BYTES
        self._failures = 0
        self._counts: Counter[str] = Counter(
            dict.fromkeys(("kept", "refused", "forked", "failed", "evicted"), 0)
        )
        self.is_offered = False
        """Whether forking was tried on this host, and works."""

    def turn(self, desktop: object, task: str) -> None:
        """A desktop is given a task: points of those that no desktop is at are given up first."""
        with self._lock:
            self._tasks[desktop] = task

    def keep(self, key: str, pid: int, notes: Notes) -> ForkPoint:
        """Keep a desktop as it is now; one that is kept already is not kept again.

        Raises:
            ForkRefusedError: there is no room, or it cannot be written out.
            DesktopLostError: the launcher is gone.
        """
        with self._lock:
            if key in self._points:
                return self._touched(self._points[key])
            if key in self._making:
                raise self._refusal("another desktop is being kept there just now")
            self._make_room(self._expected_bytes)
            self._making.add(key)
        try:
            dump = self._forking.dump(pid, bytes_max=self._bytes_max)
        except LauncherError as error:
            with self._lock:
                raise self._refusal(str(error)) from error
        finally:
            with self._lock:
                self._making.discard(key)
        with self._lock:
            point = ForkPoint(key=key, dump=dump, notes=notes, used_s=self._clock())
            self._expected_bytes = max(self._expected_bytes // 2, point.size_bytes)
            self._points[key] = point
            self._counts["kept"] += 1
            self._trim(spared=point)
        _log.debug("fork.kept", key=key, bytes=dump.size_bytes, dump_ms=dump.wall_ms)
        return point

    @contextmanager
    def borrowed(self, keys: Sequence[str]) -> Iterator[tuple[int, ForkPoint] | None]:
        """The last of these keys that has a point, with its position; nobody drops it meanwhile."""
        with self._lock:
            known = [(at, self._points[key]) for at, key in enumerate(keys) if key in self._points]
            if known:
                self._touched(known[-1][1]).pins += 1
        try:
            yield known[-1] if known else None
        finally:
            if known:
                with self._lock:
                    known[-1][1].pins -= 1
                    self._drop_unpinned(known[-1][1])

    def restore(self, point: ForkPoint, kind: DesktopKind) -> int:
        """Bring a clone of a borrowed point up; the pid of its first process.

        Raises:
            LauncherError: it could not be brought back.
            DesktopLostError: the launcher is gone.
        """
        return self._forking.restore(point.dump.point, kind)

    def succeeded(self) -> None:
        """A clone stood where it should."""
        with self._lock:
            self._counts["forked"] += 1
            self._failures = 0

    def failed(self, point: ForkPoint, why: str) -> None:
        """A clone did not come up, or stood elsewhere: nobody is to get another."""
        with self._lock:
            self._counts["failed"] += 1
            self._failures += 1
            self._evict(point)
            is_over = self._failures >= _FAILURES_MAX and self.is_offered
            if is_over:
                self.is_offered = False
        _log.warning("fork.failed", key=point.key, error=why)
        if is_over:
            _log.error("fork.withdrawn", failures=self._failures)

    def forget(self, point: ForkPoint) -> None:
        """Give a point up."""
        with self._lock:
            self._evict(point)

    def give_up_oldest(self) -> bool:
        """Give up the point used longest ago, for want of memory; whether there was one."""
        with self._lock:
            return self._evict_oldest()

    def close(self) -> None:
        """Give all points up; the launcher is about to go, and would take them with it."""
        with self._lock:
            self.is_offered = False
            with suppress(DesktopLostError, LauncherError):  # they are gone with the launcher
                for point in list(self._points.values()):
                    self._evict(point)
            self._points.clear()

    def points(self) -> tuple[ForkPoint, ...]:
        """All that are kept now."""
        with self._lock:
            return tuple(self._points.values())

    def statistics(self) -> dict[str, int]:
        """What became of fork points so far, and what they take."""
        with self._lock:
            return {**self._counts, "points": len(self._points), "bytes": self._used_bytes()}

    def _touched(self, point: ForkPoint) -> ForkPoint:
        point.used_s = self._clock()
        return point

    def _refusal(self, why: str) -> ForkRefusedError:
        self._counts["refused"] += 1
        return ForkRefusedError(why)

    def _make_room(self, wanted_bytes: int) -> None:
        """Give points up until one more has room, in the budget and on the host."""
        now_s = self._clock()
        for point in list(self._points.values()):
            if now_s - point.used_s > (UNUSED_S_MAX if self._is_at_work(point) else LEFT_S_MAX):
                self._evict(point)
        while self._used_bytes() + wanted_bytes > self._bytes_max and self._evict_oldest():
            pass
        while self._available_bytes() < wanted_bytes and self._evict_oldest():
            pass
        if self._used_bytes() + wanted_bytes > self._bytes_max:
            raise self._refusal(f"{wanted_bytes >> 20} MiB do not fit into what forks may take")
        if self._available_bytes() < wanted_bytes:
            raise self._refusal("the host is short of memory")

    def _trim(self, spared: ForkPoint) -> None:
        while self._used_bytes() > self._bytes_max and self._evict_oldest(spared):
            pass

    def _used_bytes(self) -> int:
        return sum(point.size_bytes for point in self._points.values())

    def _evict_oldest(self, spared: ForkPoint | None = None) -> bool:
        free = [p for p in self._points.values() if not p.pins and p is not spared]
        if free:
            self._evict(min(free, key=lambda point: (self._is_at_work(point), point.used_s)))
        return bool(free)

    def _is_at_work(self, point: ForkPoint) -> bool:
        """Whether a desktop is at its task, as far as desktops have told."""
        return not point.notes.task or point.notes.task in self._tasks.values()

    def _evict(self, point: ForkPoint) -> None:
        if self._points.get(point.key) is point:
            del self._points[point.key]
            self._counts["evicted"] += 1
            point.is_evicted = True
            self._drop_unpinned(point)

    def _drop_unpinned(self, point: ForkPoint) -> None:
        if point.is_evicted and not point.pins:
            point.is_evicted = False  # once
            self._forking.drop(point.dump.point)
