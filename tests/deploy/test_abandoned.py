"""Row E10 with actors: one that hangs is given up, whoever asked it is told, another takes over."""

from __future__ import annotations

import functools
import threading

import pytest
import trio
import trio.testing

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import Resolve, Resolved
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

NAME = ActorName("actor")


class Hanging(Actor[Resolve]):
    """The first of its kind hangs in a thread that cannot be cancelled; the next ones answer."""

    def __init__(self, gates: list[threading.Event]) -> None:
        self._gate = gates.pop() if gates else None

    async def hear(self, message: Resolve) -> Resolved:
        if self._gate is not None:
            await trio.to_thread.run_sync(self._gate.wait)
        return Resolved(places=())


async def test_an_actor_that_hangs_is_replaced_under_its_name_and_its_askers_are_told() -> None:
    post = Post(RunId("r"))
    gate = threading.Event()
    gates = [gate]

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        await run_actor(Hanging(gates), NAME, post, task_status=task_status)

    spec = ChildSpec(
        name=NAME, start=start, destroy_s=0.1, destroy=functools.partial(post.evict, NAME)
    )
    tree = Supervisor("node")
    ref = post.ref(NAME, sender=ActorName("asker"))

    async def ask_in_vain() -> None:
        with pytest.raises(ActorCrashedError):
            await ref.ask(Resolve(prefix=""), timeout_s=30)

    try:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                await nursery.start(tree.run)
                await tree.start_child(spec)
                async with trio.open_nursery() as askers:
                    for _ in range(2):  # one is heard, one waits
                        askers.start_soon(ask_in_vain)
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    await tree.stop_child(NAME)
                await tree.start_child(spec)

                assert isinstance(await ref.ask(Resolve(prefix=""), timeout_s=5), Resolved)
                gate.set()  # the first one wakes at last, and takes nothing away
                await trio.sleep(0.1)
                assert isinstance(await ref.ask(Resolve(prefix=""), timeout_s=5), Resolved)
                assert tree.statistics()["abandoned"] == 1
                tree.stop()
    finally:
        gate.set()
