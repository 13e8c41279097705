"""The head lets nodes in, tells them of each other, and answers for runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
import trio

from envs_node.actors.head.actor import HeadActor, Standing
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, BranchId, DesktopId, EnvsError, RunId, TaskId
from envs_node.messages.lifecycle import (
    Join,
    Joined,
    JoinFailed,
    Leave,
    Left,
    Place,
    Resolve,
    Resolved,
    Role,
    RunRefused,
    RunStarted,
    RunStopped,
    SearchSettings,
    StartRun,
    StopRun,
)
from envs_node.messages.search import Progress, TaskProgress
from envs_node.messages.status import DesktopReport, LeaseStatus, NodeReport, Status, StatusWanted

TaskState = Literal["waiting", "running", "solved", "exhausted", "vacuous", "refused"]
DESKTOP = NodeReport(desktops=(DesktopReport(desktop_id=DesktopId("d-0"), state="idle"),))
START = StartRun(tasks=(), settings=SearchSettings(), run="r-1")


class FakeRuns:
    """Takes one run at a time."""

    def __init__(self) -> None:
        self.on: list[str] = []
        self.stands = Standing()

    async def start(self, request: StartRun) -> None:
        if self.on:
            raise EnvsError(f"the run {self.on[0]} is on")
        self.on.append(request.run)

    async def stop(self, run: str) -> None:
        self.on.remove(run)

    async def standing(self) -> Standing:
        return self.stands


@asynccontextmanager
async def _head(
    clock_ns: list[int], runs: FakeRuns | None = None, *, own: NodeReport | None = None
) -> AsyncIterator[Ref]:
    post = Post(RunId("test"), clock_ns=lambda: clock_ns[0])
    name = ActorName("head")
    report = own or NodeReport()
    actor = HeadActor(
        runs or FakeRuns(), node="h", version="1", names=post.names, report=lambda: report
    )
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, actor, name, post)
            yield post.ref(name, sender=ActorName("test"))
            nursery.cancel_scope.cancel()


def _join(
    node: str,
    *,
    role: Role = "policy",
    version: str = "1",
    url: str = "tcp://p",
    report: NodeReport | None = None,
) -> Join:
    return Join(
        node=node,
        role=role,
        url=url,
        actors=(ActorName("proposer"),) if role == "policy" else (),
        version=version,
        report=report or NodeReport(),
        instance=node,
    )


def _task(
    state: TaskState, *, reassigned: int = 0, lost: int = 0, refused: int = 0
) -> TaskProgress:
    return TaskProgress(
        task_id=TaskId("t"),
        template="t",
        split="train",
        state=state,
        reassigned=reassigned,
        lost=lost,
        refused=refused,
    )


async def test_a_node_of_this_version_is_let_in_and_told_of() -> None:
    async with _head([0]) as head:
        joined = await head.ask(_join("p"), timeout_s=5)
        found = await head.ask(Resolve(prefix="proposer"), timeout_s=5)
        other = await head.ask(Resolve(prefix="ledger"), timeout_s=5)

    assert joined == Joined(head="h", version="1")
    assert found == Resolved(places=(Place(ActorName("proposer"), "tcp://p"),))
    assert other == Resolved(places=())


async def test_a_node_of_another_version_is_refused_and_told_why() -> None:
    async with _head([0]) as head:
        answer = await head.ask(_join("p", version="2"), timeout_s=5)
        found = await head.ask(Resolve(prefix="proposer"), timeout_s=5)

    assert isinstance(answer, JoinFailed)
    assert "p is version 2, the head 1" in answer.reason
    assert found == Resolved(places=())


async def test_a_node_that_only_dials_is_nobodys_place() -> None:
    async with _head([0]) as head:
        await head.ask(_join("d", role="desktop", url=""), timeout_s=5)

        assert await head.ask(Resolve(prefix=""), timeout_s=5) == Resolved(places=())


async def test_a_node_that_does_not_join_again_is_forgotten_and_comes_back() -> None:
    clock_ns = [0]
    async with _head(clock_ns) as head:
        await head.ask(_join("p"), timeout_s=5)
        clock_ns[0] = 11 * 10**9
        gone = await head.ask(Resolve(prefix="proposer"), timeout_s=5)
        await head.ask(_join("p"), timeout_s=5)
        back = await head.ask(Resolve(prefix="proposer"), timeout_s=5)

    assert gone == Resolved(places=())
    assert isinstance(back, Resolved)
    assert len(back.places) == 1


async def test_a_run_is_started_refused_while_on_and_stopped() -> None:
    async with _head([0]) as head:
        answers = [await head.ask(m, timeout_s=5) for m in (START, START, StopRun(run="r-1"))]

    assert answers == [
        RunStarted(run="r-1"),
        RunRefused(reason="the run r-1 is on"),
        RunStopped(run="r-1"),
    ]


async def _status(head: Ref) -> Status:
    answer = await head.ask(StatusWanted(), timeout_s=5)
    assert isinstance(answer, Status)
    return answer


async def test_the_status_lists_every_node_the_head_first_and_the_dead_ones_too() -> None:
    clock_ns = [0]
    async with _head(clock_ns) as head:
        await head.ask(_join("p"), timeout_s=5)
        clock_ns[0] = 12 * 10**9
        await head.ask(_join("d", role="desktop", url="", report=DESKTOP), timeout_s=5)
        status = await _status(head)

    own, policy, desktops = status.nodes
    assert (status.head, own.node, own.is_alive) == ("h", "h", True)
    assert (policy.node, policy.is_alive, policy.heard_ms) == ("p", False, 12_000)
    assert (desktops.node, desktops.is_alive, desktops.report) == ("d", True, DESKTOP)
    assert (status.run, status.paused) == ("", "")


async def test_who_died_in_a_run_is_listed_until_that_is_over_or_stopped() -> None:
    runs = FakeRuns()
    clock_ns = [0]
    listed: list[list[tuple[str, bool]]] = []
    async with _head(clock_ns, runs) as head:
        for node, is_over in (("p", False), ("q", True)):
            await head.ask(START, timeout_s=5)
            await head.ask(_join(node), timeout_s=5)
            clock_ns[0] += 12 * 10**9
            running = Progress(tasks=(_task("running"),), is_over=False)
            runs.stands = Standing(run="r-1", progress=running)
            listed.append([(n.node, n.is_alive) for n in (await _status(head)).nodes])
            if is_over:
                over = msgspec.structs.replace(running, is_over=True)
                runs.stands = Standing(run="r-1", progress=over)
            else:
                await head.ask(StopRun(run="r-1"), timeout_s=5)
                runs.stands = Standing()
            listed.append([(n.node, n.is_alive) for n in (await _status(head)).nodes])

    assert listed == [
        [("h", True), ("p", False)],
        [("h", True)],
        [("h", True), ("q", False)],
        [("h", True)],
    ]


async def test_a_node_that_leaves_is_not_listed_as_dead() -> None:
    clock_ns = [0]
    async with _head(clock_ns) as head:
        await head.ask(_join("p"), timeout_s=5)
        left = await head.ask(Leave(node="p", instance="p"), timeout_s=5)
        clock_ns[0] = 60 * 10**9
        status = await _status(head)

    assert left == Left(node="p")
    assert [node.node for node in status.nodes] == ["h"]


async def test_the_status_tells_of_the_run_its_tasks_and_its_leases() -> None:
    lease = LeaseStatus(
        branch_id=BranchId("t#1"), holder=ActorName("work/d-0"), number=3, left_ms=900
    )
    tasks = (_task("solved", reassigned=1), _task("running", reassigned=2, lost=1, refused=4))
    runs = FakeRuns()
    runs.stands = Standing(run="r", progress=Progress(tasks=tasks, is_over=False, leases=(lease,)))
    async with _head([0], runs, own=DESKTOP) as head:
        await head.ask(_join("p"), timeout_s=5)
        status = await _status(head)

    assert status.run == "r"
    assert status.leases == (lease,)
    assert status.tasks == (("running", 1), ("solved", 1))
    assert (status.reassigned, status.lost, status.refused) == (3, 1, 4)
    assert status.paused == ""


async def test_a_run_whose_policies_have_all_died_is_paused_and_says_so_within_a_minute() -> None:
    clock_ns = [0]
    runs = FakeRuns()
    runs.stands = Standing(run="r", progress=Progress(tasks=(_task("running"),), is_over=False))
    async with _head(clock_ns, runs, own=DESKTOP) as head:
        await head.ask(_join("p"), timeout_s=5)
        before = await _status(head)
        clock_ns[0] = 11 * 10**9
        after = await _status(head)

    assert before.paused == ""
    assert after.paused.startswith("no policy answers: start one with `envs-node start --role p")


async def test_a_run_without_desktops_or_without_a_scheduler_says_what_it_waits_for() -> None:
    runs = FakeRuns()
    async with _head([0], runs) as head:
        await head.ask(_join("p"), timeout_s=5)
        runs.stands = Standing(run="r", progress=Progress(tasks=(), is_over=False))
        alone = await _status(head)
        runs.stands = Standing(run="r")
        silent = await _status(head)
        runs.stands = Standing(run="r", paused="paused: the disk is full")
        full = await _status(head)

    assert alone.paused.startswith("no desktop is there: start some")
    assert silent.paused == "the scheduler of the run does not answer"
    assert full.paused == "paused: the disk is full"
