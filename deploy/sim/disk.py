"""The head's disk in a simulation: the real ledger, slow, failing or full as a fault wants it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from envs_node.actors.ledger.actor import Store
from envs_node.actors.ledger.errors import LedgerError, LedgerFullError
from envs_node.deploy.sim.machine import Toil
from envs_node.deploy.sim.node import Life
from envs_node.deploy.sim.world import World
from envs_node.messages.ledger import LedgerStats, TaskOutcome, Trajectory

_SLOW_S = 8.0
"""What a write takes on a slow disk."""


class Disk:
    """What is wrong with the disk now; it outlives the head."""

    def __init__(self) -> None:
        self.slow_until_s = 0.0
        self.full_until_s = 0.0
        self.is_doomed = False
        """Whether the next write fails."""


class SimStore:
    """A store on such a disk, for one life of the head."""

    def __init__(
        self,
        path: Path,
        *,
        open_store: Callable[[Path], Store],
        disk: Disk,
        life: Life,
        toil: Toil,
        world: World,
    ) -> None:
        self._path = path
        self._disk = disk
        self._life = life
        self._toil = toil
        self._world = world
        self._writes = 0
        self._store = open_store(path)

    def admit(self, trajectory: Trajectory) -> bool:
        """See `Store`."""
        self._write()
        return self._store.admit(trajectory)

    def lacking(self, names: Sequence[str]) -> tuple[str, ...]:
        """See `Store`."""
        return self._store.lacking(names)

    def store_blob(self, name: str, sha256: str, kind: str, data: bytes) -> str:
        """See `Store`. What is kept already costs no write."""
        if self._store.lacking([name]):
            self._write()
        return self._store.store_blob(name, sha256, kind, data)

    def keep_outcome(self, outcome: TaskOutcome) -> None:
        """See `Store`."""
        self._write()
        self._store.keep_outcome(outcome)

    def stats(self) -> LedgerStats:
        """See `Store`."""
        return self._store.stats()

    def close(self) -> None:
        """See `Store`."""
        self._store.close()

    def _write(self) -> None:
        """Take the time of a write, or fail."""
        now_s, disk = trio.current_time(), self._disk
        if self._life.port.is_dead:
            raise LedgerError(self._path, "its process has died")
        if now_s < disk.full_until_s:
            raise LedgerFullError(self._path.parent, 0)
        if disk.is_doomed:
            disk.is_doomed = False
            raise LedgerError(self._path, "the simulated disk failed a write")
        self._writes += 1
        slow_s = _SLOW_S if now_s < disk.slow_until_s else 0.0
        self._toil.spend(slow_s + self._world.takes_s("ledger", str(self._writes)))
