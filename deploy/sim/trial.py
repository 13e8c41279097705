"""A trial: a simulation in a folder of its own, its undisturbed twin, and what is wrong with it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from envs_node.deploy.sim.faults import CALM
from envs_node.deploy.sim.invariants import Found, check, found_in, read_ledger
from envs_node.deploy.sim.simulation import Outcome, SimParts, SimSettings, simulate
from envs_node.messages.ledger import Trajectory
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress

FREE = SearchSettings(
    leaves_task_max=100_000,
    successes_task_max=10_000,
    actions_task_max=10_000_000,
    infra_retries_max=100,
    interruptions_max=1000,
)
"""Budgets that never bind: the ledger is then that of the world, whatever befalls the run."""

_MEMORY_FOLDER = Path("/dev/shm")


def memory_folder() -> Path | None:
    """Where files lie in memory, if this host has room for files there."""
    return _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """How one simulation went."""

    outcome: Outcome
    trajectories: tuple[Trajectory, ...]
    wrong: tuple[str, ...]
    """What must never be; empty when all invariants hold."""
    is_compared: bool
    """Whether its ledger was held against that of the undisturbed run."""
    wall_s: float
    """Of this process's own time."""


class Laboratory:
    """Tries simulations, and remembers what their undisturbed twins found.

    Args:
        folder: where runs are kept while they last: in memory, if this host has room for files
            there.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or memory_folder()
        self._found: dict[bytes, Found] = {}

    def attempt(
        self,
        settings: SimSettings,
        *,
        parts: SimParts | None = None,
        tell: Callable[[Progress, float], None] = lambda _progress, _time_s: None,
    ) -> Trial:
        """Simulate, and check every invariant that can be checked with these settings."""
        expected = None
        if may_compare(settings) and settings.faults != CALM:
            expected = self._undisturbed(settings)
        started_s = time.process_time()
        with tempfile.TemporaryDirectory(prefix="envs-sim-", dir=self._folder) as root:
            outcome = simulate(settings, Path(root), parts=parts, tell=tell)
            wall_s = time.process_time() - started_s
            trajectories = read_ledger(Path(root))
        return Trial(
            outcome=outcome,
            trajectories=trajectories,
            wrong=tuple(check(outcome, trajectories, expected)),
            is_compared=expected is not None,
            wall_s=wall_s,
        )

    def _undisturbed(self, settings: SimSettings) -> Found:
        """What the world gives a run that nothing befalls; simulated once."""
        key = msgspec.json.encode((settings.world, settings.search))
        if key not in self._found:
            calm = msgspec.structs.replace(settings, faults=CALM)
            with tempfile.TemporaryDirectory(prefix="envs-sim-", dir=self._folder) as root:
                simulate(calm, Path(root))
                self._found[key] = found_in(read_ledger(Path(root)))
        return self._found[key]


def may_compare(settings: SimSettings) -> bool:
    """Whether a disturbed run must find just what an undisturbed one finds.

    Not where a budget cuts the search short, for then it matters who comes first; and not where
    two paths lead to one screen, for a search that saw a failure there by one of them does not go
    there by the other: which one that is depends on who comes first, too.
    """
    search, world = settings.search, settings.world
    is_free = all(
        getattr(search, name) >= getattr(FREE, name)
        for name in ("leaves_task_max", "successes_task_max", "actions_task_max")
    )
    return is_free and world.idle_rate == 0
