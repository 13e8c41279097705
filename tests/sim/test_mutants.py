"""A product that is broken on purpose is caught: the simulation sees what it is there to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.parts import PROPOSER
from envs_node.deploy.sim.faults import HARSH
from envs_node.deploy.sim.simulation import SimParts, SimSettings
from envs_node.deploy.sim.trial import FREE, Laboratory
from envs_node.deploy.sim.world import WorldSettings
from envs_node.messages.base import BranchId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import LeafReached
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable
from tests.sim.seeds import times

STORM = SimSettings(
    seed=14,
    desktops=16,
    nodes=4,
    world=WorldSettings(seed=3, tasks=3, depth=3, success_rate=0.5, idle_rate=0.0),
    search=msgspec.structs.replace(FREE, lease_ms=6000),
    faults=msgspec.structs.replace(times(HARSH, 4), node_freezes=600, freeze_s=30.0),
    storm_s=300.0,
    time_max_s=1200.0,
)


class ForgivingLeases(LeaseTable[BranchId]):
    """Does not fence: whoever names a branch that is lent is taken for its holder."""

    def renew(self, item: BranchId, number: int, *, now_ns: int, length_ns: int) -> bool:
        """Any number will do."""
        held = {lease.item: lease.number for lease in self.held()}
        return super().renew(item, held.get(item, number), now_ns=now_ns, length_ns=length_ns)


class HastyLeases(LeaseTable[BranchId]):
    """Lets leases lapse before their time."""

    def lapse(self, now_ns: int) -> tuple[Any, ...]:
        """Twelve seconds early."""
        return super().lapse(now_ns + 12 * 10**9)

    def is_due(self, now_ns: int) -> bool:
        """So are those who ask for it."""
        return super().is_due(now_ns + 12 * 10**9)


class ForgetfulLeases(LeaseTable[BranchId]):
    """Never lets a lease lapse: what a dead desktop held is lost."""

    def lapse(self, now_ns: int) -> tuple[Any, ...]:
        """Nothing lapses."""
        return ()

    def release_all(self, holder: str) -> tuple[Any, ...]:
        """Nothing is given back."""
        return ()


class BlamingSearch(TaskSearch):
    """Counts what broke as a failure of the policy."""

    def leaf_reached(self, report: LeafReached, now_ns: int, *more: Any) -> Any:
        """Judge what was not judged."""
        if report.verdict is None or report.verdict.verdict == "infra":
            verdict = Verdict(verdict="failure", score=0.0)
            report = msgspec.structs.replace(report, verdict=verdict, reason="fail")
        return super().leaf_reached(report, now_ns, *more)


class LosingSearch(TaskSearch):
    """Keeps to itself what it should tell the ledger, now and then."""

    def take_admissions(self) -> tuple[Trajectory, ...]:
        """Every path of an even length is forgotten."""
        return tuple(t for t in super().take_admissions() if len(t.path) % 2)


class DoublingStore(LedgerStore):
    """Keeps each success twice, under two paths."""

    def admit(self, trajectory: Trajectory) -> bool:
        """Once as it is, and once more with a step that nobody took."""
        other = msgspec.structs.replace(
            trajectory, id=f"{trajectory.id}-2", path=(*trajectory.path, "again")
        )
        super().admit(other)
        return super().admit(trajectory)


class LyingStore(LedgerStore):
    """Says that it has kept a success, and has not."""

    def admit(self, trajectory: Trajectory) -> bool:
        """Lie about every path that ends with the first button."""
        if trajectory.path and trajectory.path[-1].endswith("0"):
            return True
        return super().admit(trajectory)


def searching(
    kind: type[TaskSearch], leases: type[LeaseTable[BranchId]]
) -> Callable[[Task, SearchSettings], TaskSearch]:
    """Makes searches of a kind, with leases of a kind."""
    return lambda task, settings: kind(task, settings, leases(), proposer=PROPOSER)


MUTANTS = {
    "unfenced": (SimParts(make_search=searching(TaskSearch, ForgivingLeases)), "is taken, but"),
    "blaming": (SimParts(make_search=searching(BlamingSearch, LeaseTable)), "verdicts of failure"),
    "doubling": (SimParts(open_store=DoublingStore), "is certified after 0 replays"),
}
SLOW_MUTANTS = {
    "hasty": (SimParts(make_search=searching(TaskSearch, HastyLeases)), "while"),
    "forgetful": (SimParts(make_search=searching(TaskSearch, ForgetfulLeases)), "did not end"),
    "losing": (SimParts(make_search=searching(LosingSearch, LeaseTable)), "lost"),
    "lying": (SimParts(open_store=LyingStore), "is not in the ledger"),
}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        *(pytest.param(*mutant, id=name) for name, mutant in MUTANTS.items()),
        *(
            pytest.param(*mutant, id=name, marks=pytest.mark.slow)
            for name, mutant in SLOW_MUTANTS.items()
        ),
    ],
)
def test_a_broken_product_is_caught(parts: SimParts, words: str):
    trial = Laboratory().attempt(STORM, parts=parts)

    assert any(words in line for line in trial.wrong), trial.wrong


def test_the_product_as_it_is_passes_the_same_storm():
    assert Laboratory().attempt(STORM).wrong == ()
