"""Desktop nodes find policies, also those that come back elsewhere."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from envs_node.actors.base import Actor
from envs_node.actors.head.roll import Roll
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, Mailbox
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.deploy.health import Health
from envs_node.deploy.membership import HEAD, JoinRefusedError, keep_joined, keep_proposer
from envs_node.deploy.parts import PROPOSER
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import (
    Join,
    Joined,
    JoinFailed,
    Leave,
    Left,
    Place,
    Resolve,
    Resolved,
)
from envs_node.messages.search import Idle, WorkWanted

ME = ActorName("replay/d-0")
TCP = "tcp://127.0.0.1:0"


class _Head(Actor[Resolve]):
    """Knows one policy."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def hear(self, message: Resolve) -> Resolved:
        return Resolved(places=(Place(PROPOSER, self.url),))


class _Gate(Actor[Join | Leave]):
    """Lets nodes in by a real roll, as a head does."""

    def __init__(self) -> None:
        self.roll = Roll()
        self.now_s = trio.current_time

    async def hear(self, message: Join | Leave) -> Joined | JoinFailed | Left:
        if isinstance(message, Leave):
            self.roll.strike(message.node, message.instance)
            return Left(node=message.node)
        taken = self.roll.take(message, round(self.now_s() * 10**9))
        return taken if isinstance(taken, JoinFailed) else Joined(head="h", version="1")


def _node(instance: str) -> Join:
    return Join(node="d", role="desktop", url="", actors=(), version="1", instance=instance)


class _Policy(Actor[WorkWanted]):
    """Answers."""

    async def hear(self, message: WorkWanted) -> Idle:
        return Idle(retry_ms=7)


async def test_a_policy_that_comes_back_elsewhere_is_asked_there_at_once() -> None:
    old, new, post = Post(RunId("o")), Post(RunId("n")), Post(RunId("d"))
    silent = Mailbox(PROPOSER, length=4)
    old.register(silent)
    proposer = post.ref(PROPOSER, sender=ME)
    with trio.fail_after(30):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, _Policy(), PROPOSER, new)
            head = _Head(await nursery.start(serve, old.deliver, TCP))
            await nursery.start(run_actor, head, HEAD, post)
            new_url = await nursery.start(serve, new.deliver, TCP)
            nursery.start_soon(keep_proposer, post, links, "d", Health())
            while post.statistics()["routes"] == 0:
                await trio.lowlevel.checkpoint()

            async def move() -> None:
                while not silent.statistics()["waiting"]:
                    await trio.lowlevel.checkpoint()
                head.url = new_url

            nursery.start_soon(move)
            with pytest.raises(ActorCrashedError, match="closed here"):
                await proposer.ask(WorkWanted(worker=ME), timeout_s=120)

            assert await proposer.ask(WorkWanted(worker=ME), timeout_s=5) == Idle(retry_ms=7)
            nursery.cancel_scope.cancel()


async def test_a_node_restarted_after_a_kill_waits_until_its_dead_self_is_cold(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate, post, health = _Gate(), Post(RunId("h")), Health()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, gate, HEAD, post)
        gate.roll.take(_node("killed"), round(trio.current_time() * 10**9))
        began_s = trio.current_time()

        await nursery.start(keep_joined, post, lambda: _node("restarted"), health)

        assert 4 <= trio.current_time() - began_s <= 8
        nursery.cancel_scope.cancel()


async def test_a_second_living_node_of_one_name_gives_up_after_a_while_and_says_why(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate, post, health = _Gate(), Post(RunId("h")), Health()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, gate, HEAD, post)
        await nursery.start(keep_joined, post, lambda: _node("first"), health)
        began_s = trio.current_time()

        expected = pytest.RaisesExc(JoinRefusedError, match="d is alive")
        with pytest.RaisesGroup(expected, flatten_subgroups=True):
            async with trio.open_nursery() as second:
                await second.start(keep_joined, post, lambda: _node("second"), health)

        assert 15 < trio.current_time() - began_s < 20
        nursery.cancel_scope.cancel()


async def test_a_node_that_is_stopped_takes_its_leave(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate, post, health = _Gate(), Post(RunId("h")), Health()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, gate, HEAD, post)
        async with trio.open_nursery() as node:
            await node.start(keep_joined, post, lambda: _node("one"), health)
            assert len(gate.roll) == 1
            node.cancel_scope.cancel()

        assert len(gate.roll) == 0
        nursery.cancel_scope.cancel()


async def test_a_head_that_was_away_is_told_of_once_it_is_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate, post, health = _Gate(), Post(RunId("h")), Health()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            await first.start(run_actor, gate, HEAD, post)
            await nursery.start(keep_joined, post, lambda: _node("one"), health)
            first.cancel_scope.cancel()
        await trio.sleep(30)
        assert health.report().degraded == ()
        await nursery.start(run_actor, gate, HEAD, post)
        await trio.sleep(3)

        (reason,) = health.report().degraded
        assert reason.startswith("the head was not heard for 3")
        await trio.sleep(31)
        assert health.report().degraded == ()
        nursery.cancel_scope.cancel()


async def test_a_node_without_a_policy_says_so_and_how_to_start_one() -> None:
    class Nobody(Actor[Resolve]):
        async def hear(self, message: Resolve) -> Resolved:
            return Resolved(places=())

    post, health = Post(RunId("d")), Health()
    with trio.fail_after(20):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, Nobody(), HEAD, post)
            nursery.start_soon(keep_proposer, post, links, "d", health)
            while not health.report().degraded:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    (reason,) = health.report().degraded
    assert "there is no policy" in reason
    assert "--role policy" in reason
