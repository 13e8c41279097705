"""A late result counts for the task it is of, and once, whatever was begun since. Row F5."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import msgspec
import trio

from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.actors.search.actor import SearchActor
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import (
    Assign,
    Idle,
    LeafReached,
    Progress,
    ProgressWanted,
    Renewed,
    TaskProgress,
    WorkWanted,
)
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable
from tests.fakes import fake_task, note_screen
from tests.policy.drive import drive

SETTINGS = SearchSettings(leaves_task_max=4, successes_task_max=2, steps_max=5)
TASKS = (fake_task("note-000"), fake_task("note-001"))
LEDGER = ActorName("ledger")


class Worker:
    """Drives branches of one search after the other, and can keep a report back."""

    def __init__(self, name: str, search: Ref) -> None:
        self._name = ActorName(name)
        self._search = search

    async def drive_one(self) -> LeafReached | None:
        """Drive the next branch; its report is not handed in. None when the search is over."""
        answer = await self._search.ask(WorkWanted(worker=self._name), timeout_s=20)
        if isinstance(answer, Idle):
            return None
        assert isinstance(answer, Assign)
        nodes, leaf = drive(note_screen(), answer)
        for node in nodes:
            assert isinstance(await self._search.ask(node, timeout_s=20), Renewed)
        return leaf

    async def hand_in(self, leaf: LeafReached) -> None:
        """Hand a report in, twice: the first answer may have been lost."""
        for _ in range(2):
            assert isinstance(await self._search.ask(leaf, timeout_s=20), Renewed)

    async def work_to_end(self) -> TaskProgress:
        """Until nothing is left to do."""
        while (leaf := await self.drive_one()) is not None:
            await self.hand_in(leaf)
        progress = await self._search.ask(ProgressWanted(), timeout_s=20)
        assert isinstance(progress, Progress)
        return progress.tasks[0]


async def test_a_result_that_comes_after_another_group_was_opened_counts_for_its_own_and_once(
    tmp_path: Path,
) -> None:
    post = Post(RunId("test"))
    make_store = functools.partial(LedgerStore, tmp_path / "ledger.sqlite")
    workers = []
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, LedgerActor(make_store), LEDGER, post)
            for task in TASKS:
                name = ActorName(f"search/{task.id}")
                search = TaskSearch(task, SETTINGS, LeaseTable(), proposer=ActorName("proposer"))
                actor = SearchActor(search, post.ref(LEDGER, sender=name))
                await nursery.start(run_actor, actor, name, post)
                ref = post.ref(name, sender=ActorName(f"work/{task.id}"))
                workers.append(Worker(f"work/{task.id}", ref))
            first, second = workers
            gate = await first.drive_one()
            assert gate is not None
            await first.hand_in(gate)
            late = await first.drive_one()
            assert late is not None
            others = await second.work_to_end()
            await first.hand_in(late)
            own = await first.work_to_end()
            nursery.cancel_scope.cancel()

    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store:
        kept = store.trajectories(certified_only=False)
        outcomes = {outcome.task_id: outcome for outcome in store.outcomes()}
    assert late.verdict is not None
    assert late.verdict.verdict == "success"
    late_path = tuple(step.fingerprint for step in late.steps)
    (found,) = [
        trajectory
        for trajectory in kept
        if trajectory.task_id == TASKS[0].id
        and tuple(step.fingerprint for step in trajectory.steps) == late_path
    ]
    assert found.task_id == late.task_id == TASKS[0].id
    assert len({trajectory.id for trajectory in kept}) == len(kept)
    counted = Counter(trajectory.task_id for trajectory in kept if trajectory.is_certified)
    assert counted == {TASKS[0].id: own.distinct, TASKS[1].id: others.distinct}
    assert own.leaves + others.leaves == sum(outcome.leaves for outcome in outcomes.values())
    same = msgspec.structs.replace(others, task_id=own.task_id)
    assert own == same, "a late report changes nothing of what its task came to"
