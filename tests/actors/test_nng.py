"""The nng transport over real sockets, between posts of one process and between processes."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest
import trio

from envs_node.actors.address import AddressError
from envs_node.actors.client import TELLS_MAX
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import (
    ActorCrashedError,
    AskTimeoutError,
    Mailbox,
    MailboxFullError,
)
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, DesktopId, RunId
from envs_node.messages.codec import CodecError
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.search import Idle, Tick, WorkWanted
from tests.actors.nng_node import DEADLINE_S, ECHO, ME, TCP, here, node, ref_to
from tests.actors.node_process import EchoActor

BIG_BYTES = 500_000


def frame(size: int) -> FetchFrame:
    return FetchFrame(desktop_id=DesktopId("d"), frame=str(size))


@pytest.mark.parametrize("scheme", ["tcp", "ipc"])
async def test_two_processes_talk(tmp_path: Path, scheme: str) -> None:
    url = "tcp://127.0.0.1:0" if scheme == "tcp" else f"ipc://{tmp_path}/node"
    with node(url) as (_, real_url), trio.fail_after(DEADLINE_S):
        async with open_links() as links:
            ref = ref_to(links, real_url)

            small = await ref.ask(WorkWanted(worker=ME), timeout_s=10)
            big = await ref.ask(frame(BIG_BYTES), timeout_s=10)

    assert small == Idle(retry_ms=1)
    assert big == FrameFetched(frame=str(BIG_BYTES), png=bytes(BIG_BYTES))


async def test_what_is_told_arrives_in_order_and_before_what_is_asked_after_it() -> None:
    async with here() as (url, _, _, links, _):
        ref = ref_to(links, url)
        for _ in range(200):
            ref.tell(Tick())

        assert await ref.ask(WorkWanted(worker=ME), timeout_s=10) == Idle(retry_ms=201)


async def test_a_busy_actor_holds_up_nobody_who_tells_another() -> None:
    server, client, echo = Post(RunId("r")), Post(RunId("r")), EchoActor()
    server.register(Mailbox(ActorName("busy")))
    with trio.fail_after(DEADLINE_S):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, echo, ECHO, server)
            client.add_route("", links.to(await nursery.start(serve, server.deliver, TCP)))
            client.ref(ActorName("busy"), sender=ME).tell(Tick())

            answer = await client.ref(ECHO, sender=ME).ask(WorkWanted(worker=ME), timeout_s=3)

            nursery.cancel_scope.cancel()
    assert answer == Idle(retry_ms=1)


async def test_a_way_that_is_closed_here_fails_the_asks_on_it() -> None:
    client, server = Post(RunId("r")), Post(RunId("r"))
    mailbox = Mailbox(ECHO)
    server.register(mailbox)
    reasons: list[str] = []

    async def ask() -> None:
        with pytest.raises(ActorCrashedError) as caught:
            await client.ref(ECHO, sender=ME).ask(Tick(), timeout_s=20)
        reasons.append(caught.value.reason)

    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as serving, trio.open_nursery() as asking:
            url = await serving.start(serve, server.deliver, TCP)
            async with open_links() as links:
                client.add_route(ECHO, links.to(url))
                asking.start_soon(ask)
                while not mailbox.statistics()["waiting"]:
                    await trio.lowlevel.checkpoint()
            while not reasons:
                await trio.lowlevel.checkpoint()
            serving.cancel_scope.cancel()

    assert reasons == ["the way to it was closed here"]


async def test_a_node_that_moved_is_waited_for_no_longer() -> None:
    failures: list[str] = []
    async with here() as (url, _, _, links, _):
        deaf = Post(RunId("r"))
        mailbox = Mailbox(ECHO, length=4)
        deaf.register(mailbox)
        async with trio.open_nursery() as nursery:
            deaf_url = await nursery.start(serve, deaf.deliver, TCP)
            ref = ref_to(links, deaf_url)

            async def ask() -> None:
                with pytest.raises(ActorCrashedError, match="closed here") as caught:
                    await ref.ask(WorkWanted(worker=ME), timeout_s=10)
                failures.append(str(caught.value))

            with trio.fail_after(5):
                async with trio.open_nursery() as asking:
                    asking.start_soon(ask)
                    while not mailbox.statistics()["waiting"]:
                        await trio.lowlevel.checkpoint()
                    links.drop(deaf_url)
                    links.drop(deaf_url)
            other = await ref_to(links, url).ask(WorkWanted(worker=ME), timeout_s=10)
            nursery.cancel_scope.cancel()

    assert len(failures) == 1
    assert other == Idle(retry_ms=1), "other ways stay open"


async def test_a_name_that_the_other_node_does_not_have_fails_at_once() -> None:
    async with here() as (url, _, _, links, _):
        post = Post(RunId("r"), resolve=lambda name: links.to(url))

        with pytest.raises(ActorCrashedError, match="nobody of that name"):
            await post.ref(ActorName("nobody"), sender=ME).ask(Tick(), timeout_s=10)


async def test_nobody_listening_is_a_timeout_and_is_reached_once_somebody_does(
    tmp_path: Path,
) -> None:
    url = f"ipc://{tmp_path}/later"
    with trio.fail_after(DEADLINE_S):
        async with open_links() as links:
            ref = ref_to(links, url)
            with pytest.raises(AskTimeoutError):
                await ref.ask(WorkWanted(worker=ME), timeout_s=0.2)

            async with here(url):
                answer = await ref.ask(WorkWanted(worker=ME), timeout_s=10)

    assert answer == Idle(retry_ms=1)


async def test_a_killed_node_is_found_again_when_it_comes_back(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/node"
    with trio.fail_after(DEADLINE_S):
        async with open_links() as links:
            ref = ref_to(links, url)
            for _ in range(2):
                with node(url):
                    answer = await ref.ask(WorkWanted(worker=ME), timeout_s=10)
                    assert answer == Idle(retry_ms=1)


async def test_a_message_too_large_is_refused_before_it_is_sent() -> None:
    async with here() as (url, actor, _, links, _):
        ref = ref_to(links, url)
        too_large = FetchFrame(desktop_id=DesktopId("d"), frame="1" * WIRE_BYTES_MAX)

        with pytest.raises(ActorCrashedError, match=r"FetchFrame is \d+ bytes; at most"):
            await ref.ask(too_large, timeout_s=10)
        with pytest.raises(CodecError, match="at most"):
            ref.tell(too_large)

        assert actor.count == 0
        assert await ref.ask(WorkWanted(worker=ME), timeout_s=10) == Idle(retry_ms=1)


async def test_an_answer_too_large_is_a_failure_with_a_reason() -> None:
    async with here() as (url, _, _, links, _):
        with pytest.raises(ActorCrashedError, match=r"FrameFetched is \d+ bytes; at most"):
            await ref_to(links, url).ask(frame(WIRE_BYTES_MAX), timeout_s=10)


async def test_telling_a_node_that_does_not_listen_is_bounded(tmp_path: Path) -> None:
    with trio.fail_after(DEADLINE_S):
        async with open_links() as links:
            ref = ref_to(links, f"ipc://{tmp_path}/nobody")
            for _ in range(TELLS_MAX):
                ref.tell(Tick())

            with pytest.raises(MailboxFullError):
                ref.tell(Tick())


async def _cancelled_sends(url: str, count: int) -> int:
    """Cancel this many sends to an address where nobody listens. Returns the growth in bytes."""
    ref_frame = FetchFrame(desktop_id=DesktopId("d"), frame="1" * BIG_BYTES)
    async with open_links() as links:
        ref = ref_to(links, url)
        before = _resident_bytes()
        for _ in range(count):
            with trio.move_on_after(0.001):
                await ref.ask(ref_frame, timeout_s=60)
        gc.collect()
        return _resident_bytes() - before


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def test_cancelled_sends_leak_nothing(tmp_path: Path) -> None:
    await _cancelled_sends(f"ipc://{tmp_path}/nobody", 10)

    grown = await _cancelled_sends(f"ipc://{tmp_path}/nobody", 60)

    assert grown < 60 * BIG_BYTES / 4


@pytest.mark.slow
async def test_two_thousand_cancelled_sends_leak_nothing(tmp_path: Path) -> None:
    await _cancelled_sends(f"ipc://{tmp_path}/nobody", 50)

    assert await _cancelled_sends(f"ipc://{tmp_path}/nobody", 2000) < 20_000_000


async def test_an_address_in_use_is_named() -> None:
    async with here() as (url, *_):
        with pytest.raises(AddressError, match=url):
            await serve(Post(RunId("r")).deliver, url)
