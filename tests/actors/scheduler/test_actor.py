"""Free desktops go to the task that was given least, and to none that is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.actors.scheduler.actor import SchedulerActor
from envs_node.messages.base import ActorName, BranchId, Message, RunId
from envs_node.messages.search import (
    Assign,
    Idle,
    Progress,
    ProgressWanted,
    TaskProgress,
    WorkerFreed,
    WorkWanted,
)
from envs_node.messages.tasks import FetchTask, Task, TaskFetched, TaskUnknown
from tests.fakes import fake_task

TASKS = {task.id: task for task in (fake_task("note-000"), fake_task("note-001"))}
SCHEDULER = ActorName("scheduler")
WANTED = WorkWanted(worker=ActorName("work/0"))


class StubSearch(Actor[Message]):
    """Gives out so many branches, and is over after; while `is_busy` it has none now."""

    def __init__(self, task: Task, branches: int, *, is_busy: bool = False) -> None:
        self._task = task
        self._branches = branches
        self.is_busy = is_busy
        self.heard: list[Message] = []

    async def hear(self, message: Message) -> Message | None:
        if isinstance(message, ProgressWanted):
            row = TaskProgress(
                task_id=self._task.id,
                template=self._task.template,
                split="train",
                state="running" if self._branches else "exhausted",
            )
            return Progress(tasks=(row,), is_over=not self._branches)
        self.heard.append(message)
        if isinstance(message, WorkerFreed):
            return None
        if self.is_busy:
            return Idle(retry_ms=150)
        if not self._branches:
            return Idle(retry_ms=0, is_over=True)
        self._branches -= 1
        return Assign(
            branch_id=BranchId(f"{self._task.id}#{self._branches}"),
            task_id=self._task.id,
            task_sha256=self._task.sha256,
            kind="explore",
            lease=1,
            lease_ms=1000,
            proposer=ActorName("proposer"),
        )


@asynccontextmanager
async def _scheduler(
    *branches: int, is_busy: bool = False, clock_ns: list[int] | None = None
) -> AsyncIterator[Ref]:
    now = clock_ns or [0]
    post = Post(RunId("test"), clock_ns=lambda: now[0])
    searches = {}
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            for task, count in zip(TASKS.values(), branches, strict=True):
                name = ActorName(f"search/{task.id}")
                stub = StubSearch(task, count, is_busy=is_busy)
                await nursery.start(run_actor, stub, name, post)
                searches[task.id] = post.ref(name, sender=SCHEDULER)
            actor = SchedulerActor(searches, dict(TASKS), run="r")
            await nursery.start(run_actor, actor, SCHEDULER, post)
            yield post.ref(SCHEDULER, sender=ActorName("work/0"))
            nursery.cancel_scope.cancel()


async def test_the_task_that_was_given_least_is_asked_first() -> None:
    async with _scheduler(2, 2) as scheduler:
        answers = [await scheduler.ask(WANTED, timeout_s=5) for _ in range(4)]

    assert [a.task_id for a in answers if isinstance(a, Assign)] == [
        "note-000",
        "note-001",
        "note-000",
        "note-001",
    ]


async def test_what_one_task_does_not_take_goes_to_the_other() -> None:
    async with _scheduler(1, 4) as scheduler:
        answers = [await scheduler.ask(WANTED, timeout_s=5) for _ in range(5)]

    tasks = [a.task_id for a in answers if isinstance(a, Assign)]
    assert (tasks.count(fake_task("note-000").id), len(tasks)) == (1, 5)


async def test_when_every_task_is_over_so_is_the_run() -> None:
    async with _scheduler(1, 0) as scheduler:
        first = await scheduler.ask(WANTED, timeout_s=5)
        second = await scheduler.ask(WANTED, timeout_s=5)
        progress = await scheduler.ask(ProgressWanted(), timeout_s=5)

    assert isinstance(first, Assign)
    assert isinstance(second, Idle)
    assert second.is_over
    assert isinstance(progress, Progress)
    assert (len(progress.tasks), progress.is_over) == (2, True)


async def test_a_desktop_waits_no_longer_than_the_task_that_is_ready_soonest() -> None:
    async with _scheduler(1, 1, is_busy=True) as scheduler:
        answer = await scheduler.ask(WANTED, timeout_s=5)

    assert answer == Idle(retry_ms=150)


async def test_desktops_are_counted_while_they_ask() -> None:
    clock_ns = [0]
    async with _scheduler(9, 9, clock_ns=clock_ns) as scheduler:
        await scheduler.ask(WANTED, timeout_s=5)
        await scheduler.ask(WorkWanted(worker=ActorName("work/1")), timeout_s=5)
        both = await scheduler.ask(ProgressWanted(), timeout_s=5)
        clock_ns[0] = 61 * 10**9
        none = await scheduler.ask(ProgressWanted(), timeout_s=5)

    assert isinstance(both, Progress)
    assert isinstance(none, Progress)
    assert (both.desktops, none.desktops) == (2, 0)


async def test_a_task_is_sent_in_full_and_a_strange_one_refused() -> None:
    async with _scheduler(1, 1) as scheduler:
        known = await scheduler.ask(FetchTask(task_id=fake_task("note-001").id), timeout_s=5)
        strange = await scheduler.ask(FetchTask(task_id=fake_task("x-9").id), timeout_s=5)

    assert known == TaskFetched(task=fake_task("note-001"))
    assert strange == TaskUnknown(task_id=fake_task("x-9").id, reason="not a task of this run")
