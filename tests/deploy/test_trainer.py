"""How a trainer is found and asked: it may move, its head may be away, and it may be none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.deploy.membership import HEAD
from envs_node.deploy.trainer import TRAINER, TrainerLostError, fit_where
from envs_node.messages.base import RunId
from envs_node.messages.fit import Fit, FitFailed, FitRunning
from envs_node.messages.lifecycle import Place, Resolve, Resolved

ASKED = Fit(fit_id="one", ledger="l", base="b", out="o")
DONE = FitFailed(fit_id="one", reason="for the test")


class _Head(Actor[Resolve]):
    def __init__(self) -> None:
        self.url = ""

    async def hear(self, message: Resolve) -> Resolved:
        return Resolved(places=(Place(TRAINER, self.url),) if self.url else ())


class _Trainer(Actor[Fit]):
    """Is at a fit until it is told that it is done."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self.is_done = False
        self._asked = asked

    async def hear(self, message: Fit) -> FitRunning | FitFailed:
        self._asked()
        return DONE if self.is_done else FitRunning(fit_id=message.fit_id, step=4, steps=9)


async def test_a_trainer_that_comes_back_elsewhere_is_asked_for_the_same_fit_there() -> None:
    client, head = Post(RunId("c")), _Head()
    old_post, new_post = Post(RunId("o")), Post(RunId("n"))
    watched: list[FitRunning] = []
    new = _Trainer()
    new.is_done = True

    with trio.fail_after(30):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, head, HEAD, client)
            await nursery.start(run_actor, _Trainer(), TRAINER, old_post)
            await nursery.start(run_actor, new, TRAINER, new_post)
            head.url = await nursery.start(serve, old_post.deliver, "tcp://127.0.0.1:0")
            new_url = await nursery.start(serve, new_post.deliver, "tcp://127.0.0.1:0")

            def watch(running: FitRunning) -> None:
                watched.append(running)
                head.url = new_url

            assert await fit_where(client, links, ASKED, watch) == DONE
            nursery.cancel_scope.cancel()

    assert watched == [FitRunning(fit_id="one", step=4, steps=9)]


async def test_a_trainer_fits_on_while_its_head_is_away() -> None:
    client, head, post = Post(RunId("c")), _Head(), Post(RunId("t"))
    trainer = _Trainer()
    with trio.fail_after(30):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, trainer, TRAINER, post)
            async with trio.open_nursery() as heads:
                await heads.start(run_actor, head, HEAD, client)
                head.url = await nursery.start(serve, post.deliver, "tcp://127.0.0.1:0")
                is_seen, is_found = trio.Event(), trio.Event()
                found: list[object] = []

                async def ask() -> None:
                    found.append(await fit_where(client, links, ASKED, lambda _: is_seen.set()))
                    is_found.set()

                nursery.start_soon(ask)
                await is_seen.wait()
                heads.cancel_scope.cancel()
            trainer.is_done = True
            await is_found.wait()
            nursery.cancel_scope.cancel()

    assert found == [DONE]


async def test_no_trainer_for_a_minute_is_told_with_the_way_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client = Post(RunId("c"))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, _Head(), HEAD, client)
        async with open_links() as links:
            with pytest.raises(TrainerLostError, match=r"knows of none; start .* --role trainer"):
                await fit_where(client, links, ASKED, lambda _: None)
        assert trio.current_time() >= 60
        nursery.cancel_scope.cancel()
