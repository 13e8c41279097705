"""A first question gets what is said, whatever that is; nothing and garbage break nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pynng
import pytest
import trio

from envs_node.actors.knock import knock
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.search import WorkWanted

ME = ActorName("work/me")
THERE = ActorName("search/t")


@asynccontextmanager
async def _answering(reply: bytes) -> AsyncIterator[str]:
    """Somebody who answers everything with the same bytes; gives the address."""

    async def answer(socket: pynng.Rep0) -> None:
        while True:
            await socket.arecv()
            await socket.asend(reply)

    with pynng.Rep0() as socket:
        address = socket.listen("tcp://127.0.0.1:0").local_address
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, socket)
            yield f"tcp://{address}"
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("reply", [b"", b"\x00", b"garbage"])
async def test_whoever_knocks_hears_what_is_answered_be_it_nothing(reply: bytes) -> None:
    """Row E4."""
    async with _answering(reply) as url:
        with trio.fail_after(20):
            assert await knock(url, None, b"who is there?") == reply


@pytest.mark.parametrize("reply", [b"", b"\x00", b"garbage"])
async def test_an_answer_that_is_none_is_a_refusal_and_the_next_question_is_asked(
    reply: bytes,
) -> None:
    """Row E4."""
    post = Post(RunId("test"))
    async with _answering(reply) as url, open_links() as links:
        post.add_route(THERE, links.to(url))
        for _ in range(3):
            with pytest.raises(ActorCrashedError):
                await post.ref(THERE, sender=ME).ask(WorkWanted(worker=ME), timeout_s=20)
