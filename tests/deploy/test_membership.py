"""Desktop nodes find policies, also those that come back elsewhere."""

from __future__ import annotations

import pytest
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, Mailbox
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.deploy.membership import HEAD, keep_proposer
from envs_node.deploy.parts import PROPOSER
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import Place, Resolve, Resolved
from envs_node.messages.search import Idle, WorkWanted

ME = ActorName("replay/d-0")
TCP = "tcp://127.0.0.1:0"


class _Head(Actor[Resolve]):
    """Knows one policy."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def hear(self, message: Resolve) -> Resolved:
        return Resolved(places=(Place(PROPOSER, self.url),))


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
            nursery.start_soon(keep_proposer, post, links, "d")
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
