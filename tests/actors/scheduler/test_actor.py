"""Free desktops go to the task that was given least, and to none that is over."""

from __future__ import annotations

import time
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


class FakeRoom:
    """Pauses when told to; whoever waits for room waits until it is told to go on."""

    def __init__(self) -> None:
        self._paused = trio.Event()
        self._has_room = trio.Event()

    def why_paused(self) -> str:
        return "paused: no room" if self._paused.is_set() else ""

    async def wait_paused(self) -> None:
        await self._paused.wait()

    async def wait(self) -> None:
        """What a search does before it hears."""
        self._paused.set()
        await self._has_room.wait()

    def go_on(self) -> None:
        self._paused = trio.Event()
        self._has_room.set()


class StubSearch(Actor[Message]):
    """Gives out so many branches, and is over after; while `is_busy` it has none now."""

    def __init__(
        self, task: Task, branches: int, *, is_busy: bool = False, room: FakeRoom | None = None
    ) -> None:
        self._room = room
        self._task = task
        self._branches = branches
        self.is_busy = is_busy
        self.heard: list[Message] = []

    async def hear(self, message: Message) -> Message | None:
        if self._room is not None:
            await self._room.wait()
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


class Searches:
    """The stubs of both tasks, and the scheduler that asks them."""

    def __init__(
        self,
        *branches: int,
        is_busy: bool = False,
        is_first_gone: bool = False,
        room: FakeRoom | None = None,
    ) -> None:
        self._room = room
        self.stubs = {
            task.id: StubSearch(task, count, is_busy=is_busy, room=room)
            for task, count in zip(TASKS.values(), branches, strict=True)
        }
        self._gone = {next(iter(TASKS))} if is_first_gone else set()

    @asynccontextmanager
    async def open(self, clock_ns: list[int] | None = None) -> AsyncIterator[Ref]:
        """Run them; gives the scheduler."""
        now = clock_ns or [0]
        post = Post(RunId("test"), clock_ns=lambda: now[0])
        refs = {t: post.ref(ActorName(f"search/{t}"), sender=SCHEDULER) for t in self.stubs}
        with trio.fail_after(300):
            async with trio.open_nursery() as nursery:
                for task_id, stub in self.stubs.items():
                    if task_id not in self._gone:
                        await nursery.start(run_actor, stub, refs[task_id].name, post)
                actor = SchedulerActor(refs, dict(TASKS), run="r", room=self._room)
                await nursery.start(run_actor, actor, SCHEDULER, post)
                yield post.ref(SCHEDULER, sender=ActorName("work/0"))
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def _scheduler(
    *branches: int, is_busy: bool = False, clock_ns: list[int] | None = None
) -> AsyncIterator[Ref]:
    async with Searches(*branches, is_busy=is_busy).open(clock_ns) as scheduler:
        yield scheduler


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


def _freed(stub: StubSearch) -> list[Message]:
    return [message for message in stub.heard if isinstance(message, WorkerFreed)]


async def test_a_worker_that_asks_again_is_freed_at_the_search_that_it_worked_for() -> None:
    searches = Searches(2, 2)
    async with searches.open() as scheduler:
        first = await scheduler.ask(WANTED, timeout_s=5)
        second = await scheduler.ask(WANTED, timeout_s=5)

    assert isinstance(first, Assign)
    assert isinstance(second, Assign)
    assert _freed(searches.stubs[first.task_id]) == [WorkerFreed(worker=WANTED.worker)]
    assert _freed(searches.stubs[second.task_id]) == []


async def test_a_scheduler_that_started_over_is_told_by_the_worker_where_it_was() -> None:
    searches = Searches(2, 2)
    last = fake_task("note-001").id
    async with searches.open() as scheduler:
        wanted = WorkWanted(worker=WANTED.worker, task_id=last)
        for _ in range(2):
            await scheduler.ask(wanted, timeout_s=5)

    assert searches.stubs[last].heard[0] == WorkerFreed(worker=WANTED.worker)
    assert len(_freed(searches.stubs[last])) == 1


async def test_a_search_that_starts_over_keeps_nobody_from_the_others() -> None:
    searches = Searches(9, 2, is_first_gone=True)
    async with searches.open() as scheduler:
        answers = [await scheduler.ask(WANTED, timeout_s=5) for _ in range(2)]
        progress = await scheduler.ask(ProgressWanted(), timeout_s=5)

    assert [a.task_id for a in answers if isinstance(a, Assign)] == [fake_task("note-001").id] * 2
    assert isinstance(progress, Progress)
    assert not progress.is_over


async def test_a_task_without_work_is_not_asked_for_every_free_desktop() -> None:
    clock_ns = [0]
    searches = Searches(1, 1, is_busy=True)
    async with searches.open(clock_ns) as scheduler:
        answers = [await scheduler.ask(WANTED, timeout_s=5) for _ in range(10)]
        clock_ns[0] = 10**9
        await scheduler.ask(WANTED, timeout_s=5)

    asked = [m for s in searches.stubs.values() for m in s.heard if isinstance(m, WorkWanted)]
    assert answers == [Idle(retry_ms=150)] * 10
    assert len(asked) == 2 * len(TASKS)


async def test_while_a_search_waits_for_room_the_scheduler_says_so_and_does_not_wait_with_it() -> (
    None
):
    room = FakeRoom()
    searches = Searches(2, 2, room=room)
    started_s = time.monotonic()

    async with searches.open() as scheduler:
        progress = await scheduler.ask(ProgressWanted(), timeout_s=5)
        idle = await scheduler.ask(WANTED, timeout_s=5)

    assert isinstance(progress, Progress)
    assert progress.reason == "paused: no room"
    assert not progress.is_over
    assert idle == Idle(retry_ms=1000)
    assert time.monotonic() - started_s < 2


async def test_work_that_a_search_gave_late_because_of_a_pause_is_given_back() -> None:
    room = FakeRoom()
    searches = Searches(1, 0, room=room)

    async with searches.open() as scheduler:
        idle = await scheduler.ask(WANTED, timeout_s=5)
        room.go_on()
        await scheduler.ask(WANTED, timeout_s=5)
    first = next(iter(searches.stubs.values()))

    assert isinstance(idle, Idle)
    assert WorkerFreed(worker=WANTED.worker) in first.heard
