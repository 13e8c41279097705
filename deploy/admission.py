"""Admission: may this host take one more desktop, and if not, which limit says so?

What was promised and is not used yet counts as used, so that desktops which are let in together do
not outgrow the host together. A reserve is never promised: the kernel's out-of-memory killer would
take what it likes, while a desktop that we stop ourselves is lent again and costs a branch.

`Admission` is asked from one thread, or from several: it holds a lock while it counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import msgspec

from envs_node.deploy.limits import Limit, Need, available_bytes, read_limits, used_bytes

_MIB = 1 << 20
_HEADROOM = 1.25
"""A desktop may grow by so much over what those that run take on average."""
_SHED_PART = 0.5
"""Below this part of the reserve desktops are stopped, to keep the rest alive."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """How to look at a host; tests look at another one."""

    available_bytes: Callable[[], int] = available_bytes
    used_bytes: Callable[[int], int] = used_bytes
    limits: Callable[..., tuple[Limit, ...]] = read_limits
    load: Callable[[], float] = lambda: os.getloadavg()[0]
    cpus: int = msgspec.field(default_factory=lambda: len(os.sched_getaffinity(0)))


class Admission:
    """Counts what was promised to the desktops of this node, and lets in what fits.

    Args:
        need: what one more desktop takes at least; more once those that run take more.
        reserve_bytes: memory that is never promised.
        load_cpu_max: with more load a processor than this, no more desktops than processors.
    """

    def __init__(
        self,
        need: Need | None = None,
        *,
        reserve_bytes: int = 512 * _MIB,
        load_cpu_max: float = 8.0,
        host: Host | None = None,
    ) -> None:
        self._need = need or Need()
        self._reserve_bytes = reserve_bytes
        self._load_cpu_max = load_cpu_max
        self._host = host or Host()
        self._lock = threading.RLock()
        self._pids: dict[str, Callable[[], int]] = {}
        """Whom something is promised to, and the desktop of each: 0 while there is none."""

    def ask(self, who: str, pid: Callable[[], int]) -> str:
        """Promise one desktop its share. Nothing is said when it may start, else why it may not.

        Args:
            who: a name; asked again, its promise is renewed.
            pid: the first process of its desktop, or 0; called from any thread.
        """
        with self._lock:
            self._pids.pop(who, None)
            lack = self._lack()
            if not lack:
                self._pids[who] = pid
            return lack

    def release(self, who: str) -> None:
        """Take a promise back. Twice does no harm."""
        with self._lock:
            self._pids.pop(who, None)

    def spare_bytes(self) -> int:
        """Memory that nobody is promised and that is no reserve: caches may take of it.

        Below 0, caches are to be given up.
        """
        with self._lock:
            return self._spare_bytes(self._used())

    def is_pressed(self) -> bool:
        """Whether memory is so short that a desktop has to go."""
        return self._host.available_bytes() < self._reserve_bytes * _SHED_PART

    def largest(self) -> str:
        """Whose desktop takes most; nobody's when there is only one left."""
        with self._lock:
            used = self._used()
        return max(used, key=lambda who: used[who]) if len(used) > 1 else ""

    def admitted(self) -> tuple[str, ...]:
        """Whom something is promised to."""
        with self._lock:
            return tuple(self._pids)

    def _used(self) -> dict[str, int]:
        found = {}
        for who, pid_of in self._pids.items():
            pid = pid_of()
            found[who] = self._host.used_bytes(pid) if pid else 0
        return found

    def _expected_bytes(self, used: dict[str, int]) -> int:
        running = [size for size in used.values() if size]
        mean = sum(running) / len(running) if running else 0
        return max(self._need.memory_bytes, int(mean * _HEADROOM))

    def _spare_bytes(self, used: dict[str, int]) -> int:
        expected = self._expected_bytes(used)
        outstanding = sum(max(0, expected - size) for size in used.values())
        return self._host.available_bytes() - self._reserve_bytes - outstanding

    def _lack(self) -> str:
        used = self._used()
        need = msgspec.structs.replace(self._need, memory_bytes=self._expected_bytes(used))
        promised = sum(size == 0 for size in used.values())
        for limit in self._host.limits(
            need, spare_bytes=self._spare_bytes(used), promised=promised
        ):
            if not limit.is_enough:
                return limit.refusal()
        load, cpus = self._host.load(), self._host.cpus
        if load > self._load_cpu_max * cpus and len(used) >= cpus:
            return (
                f"load: {load:.0f} on {cpus} processors, more than {self._load_cpu_max:g} each; "
                "drive fewer desktops (--desktop.count), or end other work"
            )
        return ""
