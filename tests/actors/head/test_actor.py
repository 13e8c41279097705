"""The head lets nodes in, tells them of each other, and answers for runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from envs_node.actors.head.actor import HeadActor, Standing
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, EnvsError, RunId
from envs_node.messages.lifecycle import (
    Join,
    Joined,
    JoinFailed,
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

START = StartRun(tasks=(), settings=SearchSettings(), run="r-1")


class FakeRuns:
    """Takes one run at a time."""

    def __init__(self) -> None:
        self.on: list[str] = []

    async def start(self, request: StartRun) -> None:
        if self.on:
            raise EnvsError(f"the run {self.on[0]} is on")
        self.on.append(request.run)

    async def stop(self, run: str) -> None:
        self.on.remove(run)

    async def standing(self) -> Standing:
        return Standing()


@asynccontextmanager
async def _head(clock_ns: list[int]) -> AsyncIterator[Ref]:
    post = Post(RunId("test"), clock_ns=lambda: clock_ns[0])
    name = ActorName("head")
    actor = HeadActor(FakeRuns(), node="h", version="1")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, actor, name, post)
            yield post.ref(name, sender=ActorName("test"))
            nursery.cancel_scope.cancel()


def _join(node: str, *, role: Role = "policy", version: str = "1", url: str = "tcp://p") -> Join:
    return Join(node=node, role=role, url=url, actors=(ActorName("proposer"),), version=version)


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
