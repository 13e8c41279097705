"""The store beside a model of it: whatever is done in whatever order, they agree."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import TaskOutcome, Trajectory

MakeTrajectory = Callable[..., Trajectory]
PATHS = st.lists(st.sampled_from(["click a", "click b", "key enter"]), min_size=1, max_size=3)
TASKS = st.sampled_from(["append-line-000", "append-line-001", "sum-cells-000"])


class LedgerMachine(RuleBasedStateMachine):
    """Admits, crashes, reopens; the model is a few dictionaries."""

    def __init__(self, make_trajectory: MakeTrajectory) -> None:
        super().__init__()
        self.make = make_trajectory
        self.root = Path(tempfile.mkdtemp(prefix="ledger-"))
        self.lives = 0
        self.store = LedgerStore(self.root / "0" / "ledger.sqlite")
        self.known: dict[tuple[str, tuple[str, ...]], bool] = {}
        self.rates: dict[str, tuple[int, int]] = {}
        self.pictures: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.root)

    @rule(path=PATHS, task=TASKS, is_certified=st.booleans())
    def admit(self, path: list[str], task: str, is_certified: bool) -> None:
        key = (task, tuple(path))
        is_new = self.store.admit(self.make(*path, task=task, is_certified=is_certified))
        assert is_new == (key not in self.known)
        self.known[key] = self.known.get(key, False) or is_certified

    @rule(task=TASKS, successes=st.integers(0, 4))
    def keep_outcome(self, task: str, successes: int) -> None:
        self.rates[task] = (successes, 4)
        self.store.keep_outcome(
            TaskOutcome(
                task_id=TaskId(task),
                template=task[:-4],
                split="train",
                leaves=4,
                successes=successes,
                state="running",
            )
        )

    @rule(name=st.sampled_from("abc"), data=st.binary(max_size=4))
    def store_blob(self, name: str, data: bytes) -> None:
        self.pictures.setdefault(name, data)
        kept = self.store.store_blob(name, hashlib.sha256(data).hexdigest(), "png", data)
        assert kept == hashlib.sha256(self.pictures[name]).hexdigest()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = LedgerStore(self.store.path)

    @rule()
    def crash(self) -> None:
        """What a killed process leaves is the files as they are, the write-ahead log unmerged."""
        self.lives += 1
        folder = self.root / str(self.lives)
        shutil.copytree(self.store.path.parent, folder, ignore=shutil.ignore_patterns("*-shm"))
        self.store.close()
        self.store = LedgerStore(folder / "ledger.sqlite")

    @invariant()
    def agrees_with_the_model(self) -> None:
        found = self.store.trajectories(certified_only=False)
        assert {(t.task_id, t.path): t.is_certified for t in found} == self.known
        for trajectory in found:
            successes, leaves = self.rates.get(trajectory.task_id, (1, 2))
            assert trajectory.success_rate == successes / leaves
        stats = self.store.stats()
        assert stats.steps == sum(len(path) for _, path in self.known)
        shared = {(task, path[: i + 1]) for task, path in self.known for i in range(len(path))}
        assert stats.distinct_steps == len(shared)
        assert stats.certified == sum(self.known.values())
        assert stats.blobs == len(self.pictures)
        assert set(self.store.lacking(list("abc"))) == set("abc") - set(self.pictures)
        assert all(self.store.read_blob(name) == data for name, data in self.pictures.items())


def test_the_store_agrees_with_its_model(make_trajectory: MakeTrajectory):
    run_state_machine_as_test(
        lambda: LedgerMachine(make_trajectory),
        settings=settings(max_examples=15, stateful_step_count=15, deadline=None),
    )
