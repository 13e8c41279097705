"""The nng transport when processes die, freeze, fall behind or are told to end."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from envs_node.actors.address import AddressError
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import (
    ActorCrashedError,
    AskTimeoutError,
    Mailbox,
    MailboxFullError,
    Ref,
)
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.refusals import Refusals
from envs_node.actors.server import Server
from envs_node.actors.sockets import listening
from envs_node.actors.transport import Reply
from envs_node.messages.base import ActorName, DesktopId, Envelope, Message, RunId
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.search import Idle, Tick, WorkWanted
from tests.actors.nng_node import DEADLINE_S, ECHO, ME, TCP, Here, here, node, ref_to
from tests.actors.slow_actors import SlowActor
from tests.actors.slow_link import slow_link

TRAFFIC = Path(__file__).with_name("traffic_process.py")
FRAMES = Path(__file__).with_name("frames_process.py")
SLOW = ActorName("slow")
WANTED = WorkWanted(worker=ME)


def numbered(number: int) -> WorkWanted:
    return WorkWanted(worker=ActorName(str(number)))


def frame(size: int) -> FetchFrame:
    return FetchFrame(desktop_id=DesktopId("d"), frame=str(size))


async def add_slow(node: Here, nursery: trio.Nursery, *, hear_s: float, length: int) -> SlowActor:
    """An actor with a tiny mailbox beside the echo."""
    actor = SlowActor(hear_s=hear_s)
    await nursery.start(partial(run_actor, actor, SLOW, node.post, mailbox_length=length))
    return actor


async def tell_all(ref: Ref, messages: list[WorkWanted]) -> None:
    """Tell everything, waiting where that is refused: back-pressure."""
    for message in messages:
        while True:
            try:
                ref.tell(message)
                break
            except MailboxFullError:
                await trio.sleep(0.01)


async def test_what_is_told_into_a_full_mailbox_waits_and_arrives_once_and_in_order() -> None:
    told: list[Message] = [numbered(number) for number in range(60)]
    async with here() as node, trio.open_nursery() as nursery:
        actor = await add_slow(node, nursery, hear_s=0.003, length=1)
        ref = node.ref("slow")
        for message in told:
            ref.tell(message)
        await ref.ask(Tick(), timeout_s=20)
        nursery.cancel_scope.cancel()

    assert actor.heard == [*told, Tick()]


async def test_a_full_mailbox_holds_up_nobody_who_speaks_to_another() -> None:
    async with here() as node:
        node.post.register(Mailbox(SLOW, length=0))
        post = Post(RunId("r"))
        post.add_route("", node.links.to(node.url))
        for _ in range(20):
            post.ref(SLOW, sender=ME).tell(Tick())

        post.ref(ECHO, sender=ME).tell(Tick())
        with trio.fail_after(2):
            answer = await post.ref(ECHO, sender=ME).ask(WANTED, timeout_s=10)

    assert answer == Idle(retry_ms=2)


async def test_many_who_ask_at_a_tiny_mailbox_are_all_answered_and_each_is_heard_once() -> None:
    async def ask(ref: Ref, first: int) -> None:
        for number in range(first, first + 10):
            await ref.ask(numbered(number), timeout_s=20)

    async with here() as node, trio.open_nursery() as nursery:
        actor = await add_slow(node, nursery, hear_s=0.001, length=1)
        post = Post(RunId("r"))
        post.add_route("", node.links.to(node.url))
        async with trio.open_nursery() as asking:
            for sender in range(8):
                ref = post.ref(SLOW, sender=ActorName(f"sender/{sender}"))
                asking.start_soon(ask, ref, sender * 10)
        nursery.cancel_scope.cancel()

    heard = [int(m.worker) for m in actor.heard if isinstance(m, WorkWanted)]
    assert sorted(heard) == list(range(80))
    for sender in range(8):
        assert [n for n in heard if n // 10 == sender] == list(range(sender * 10, sender * 10 + 10))


async def test_an_actor_that_does_not_answer_leaves_room_for_the_others() -> None:
    """Row E14: who waits at a stuck actor holds at most half of what a node can do at once."""

    async def ask_in_vain(ref: Ref) -> None:
        with pytest.raises(AskTimeoutError):
            await ref.ask(Tick(), timeout_s=1)

    async with here(calls_max=4) as node:
        mailbox = Mailbox(SLOW)
        node.post.register(mailbox)
        async with trio.open_nursery() as asking:
            for _ in range(10):
                asking.start_soon(ask_in_vain, node.ref("slow"))
            await trio.sleep(0.1)
            with trio.fail_after(0.5):
                answers = [await node.ref().ask(WANTED, timeout_s=1) for _ in range(20)]

        assert answers[-1] == Idle(retry_ms=20)
        assert mailbox.statistics()["waiting"] == 2


async def test_a_burst_that_is_told_arrives_whole() -> None:
    """Row E2: the teller is held back where the receiver is slower; nothing is dropped."""
    told = [numbered(number) for number in range(1000)]
    async with here() as node, trio.open_nursery() as nursery:
        actor = await add_slow(node, nursery, hear_s=0, length=16)
        ref = node.ref("slow")
        with trio.fail_after(120):
            await tell_all(ref, told)
            await ref.ask(Tick(), timeout_s=60)
        nursery.cancel_scope.cancel()

    assert actor.heard == [*told, Tick()]


@pytest.mark.slow
async def test_a_burst_of_twenty_thousand_that_is_told_arrives_whole() -> None:
    """Row E2 at its full size."""
    told = [numbered(number) for number in range(20_000)]
    there = Post(RunId("r"))
    actor = SlowActor()
    with trio.fail_after(240):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, actor, SLOW, there)
            ref = ref_to(links, await nursery.start(serve, there.deliver, TCP), "slow")
            await tell_all(ref, told)
            await ref.ask(Tick(), timeout_s=60)
            nursery.cancel_scope.cancel()

    assert actor.heard == [*told, Tick()]


async def test_every_request_is_answered_though_the_node_is_killed_amid_them(
    tmp_path: Path,
) -> None:
    """Row E3: what a dead node had accepted and not done is not lost; whoever asked still asks."""
    url, numbers = f"ipc://{tmp_path}/node", itertools.count()
    answered: list[int] = []

    async def ask(ref: Ref, died: trio.Event) -> None:
        while (number := next(numbers)) < 200:
            assert isinstance(await ref.ask(WANTED, timeout_s=20), Idle)
            answered.append(number)
            if len(answered) > 50:
                died.set()

    with trio.fail_after(DEADLINE_S):
        async with open_links() as links, trio.open_nursery() as nursery:
            is_half_way = trio.Event()
            ref = ref_to(links, url)
            with node(url) as (process, _):
                for _ in range(8):
                    nursery.start_soon(ask, ref, is_half_way)
                await is_half_way.wait()
                process.kill()
            with node(url):
                while len(answered) < 200:  # noqa: ASYNC110  # other tasks add to it
                    await trio.sleep(0.01)

    assert sorted(answered) == list(range(200))


async def test_a_peer_that_is_frozen_amid_large_answers_disturbs_nobody_and_goes_on_later() -> None:
    async with here() as served:
        starting = node(served.url, FRAMES)
        frozen, _ = await trio.to_thread.run_sync(starting.__enter__)
        try:
            frozen.send_signal(signal.SIGSTOP)
            with trio.fail_after(5):
                for _ in range(300):
                    await served.ref().ask(WANTED, timeout_s=1)
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdout is not None
            with trio.fail_after(10):
                assert await trio.to_thread.run_sync(frozen.stdout.readline) == "whole\n"
        finally:
            starting.__exit__(None, None, None)


@pytest.mark.parametrize("size", [100, 200_000])
async def test_a_reply_in_many_small_pieces_is_one_reply(size: int) -> None:
    """Row E13: single bytes, or a slow link; no second request, no second connection."""
    piece_bytes, pause_s = (1, 0.0) if size == 100 else (4096, 0.004)
    async with here() as node, slow_link(node.url, piece_bytes, pause_s) as link:
        answer = await ref_to(node.links, link.url).ask(frame(size), timeout_s=20)

    assert answer == FrameFetched(frame=str(size), png=bytes(size))
    assert (node.actor.count, link.connections) == (1, 1)
    assert link.pieces > 40


@pytest.mark.slow
async def test_a_large_reply_over_a_slow_link_is_one_reply() -> None:
    """Row E13: 8 MB at 2 MB/s."""
    async with here() as node, slow_link(node.url, 64_000, 0.032) as link:
        answer = await ref_to(node.links, link.url).ask(frame(8_000_000), timeout_s=25)

    assert answer == FrameFetched(frame="8000000", png=bytes(8_000_000))
    assert (node.actor.count, link.connections) == (1, 1)


def test_a_process_that_ends_amid_traffic_ends_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", str(TRAFFIC), f"ipc://{tmp_path}/t"]

    ended = subprocess.run(
        [*command, "0.4"], capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "talking\n", "")


def _end_by_signal(folder: Path, number: int) -> None:
    """Start traffic, send the signal amid it, and see it end well and soon."""
    command = [sys.executable, "-W", "error", str(TRAFFIC), f"ipc://{folder}/{number}", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
            out, err = process.communicate(timeout=5)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, b"", b"")


def test_signals_amid_traffic_end_a_process_cleanly(tmp_path: Path) -> None:
    """Row E5."""
    for number in range(2):
        _end_by_signal(tmp_path, number)


@pytest.mark.slow
def test_fifty_signals_amid_traffic_end_processes_cleanly(tmp_path: Path) -> None:
    """Row E5 at its full size."""
    for number in range(50):
        _end_by_signal(tmp_path, number)


async def _open_and_close(count: int) -> None:
    for number in range(count):
        async with here() as node:
            with trio.move_on_after(0.01 * (number % 3)):
                await node.ref().ask(WANTED, timeout_s=10)


async def test_opening_and_closing_again_and_again_works() -> None:
    """Row E5: with a request answered, cancelled, or not even begun."""
    await _open_and_close(30)


@pytest.mark.slow
async def test_opening_and_closing_ten_thousand_times_works() -> None:
    """Row E5 at its full size."""
    await _open_and_close(10_000)


async def test_a_second_server_at_a_path_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    """Row E6."""
    url = f"ipc://{tmp_path}/node"
    async with here(url) as node:
        with pytest.raises(AddressError, match=url):
            await serve(Post(RunId("r")).deliver, url)

        assert await node.ref().ask(WANTED, timeout_s=10) == Idle(retry_ms=1)


async def test_the_socket_file_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    """Row E6."""
    path = tmp_path / "node"
    with node(f"ipc://{path}") as (process, _):
        process.kill()
    assert path.exists()

    async with here(f"ipc://{path}") as second:
        assert await second.ref().ask(WANTED, timeout_s=10) == Idle(retry_ms=1)


async def test_a_server_whose_socket_file_was_removed_stops_as_ever(tmp_path: Path) -> None:
    """Row E8."""
    path = tmp_path / "node"
    with trio.fail_after(5):
        async with here(f"ipc://{path}") as node, here() as other:
            assert await node.ref().ask(WANTED, timeout_s=2) == Idle(retry_ms=1)
            path.unlink()
            assert await node.ref().ask(WANTED, timeout_s=2) == Idle(retry_ms=2)
            assert await other.ref().ask(WANTED, timeout_s=2) == Idle(retry_ms=1)


def test_nodes_that_are_started_alike_have_addresses_of_their_own() -> None:
    """Row E9."""
    with node(TCP) as (_, first), node(TCP) as (_, second):
        assert first != second


async def test_what_is_not_answered_for_too_long_gives_its_context_free_and_its_place() -> None:
    refusals, heard = Refusals(), 0

    def deliver(envelope: Envelope[Message], reply: Reply | None) -> None:
        nonlocal heard
        heard += 1

    with trio.fail_after(DEADLINE_S), listening(TCP) as opened:
        server = Server(deliver, opened.socket, 1, None, refusals, answer_s=0.3)
        async with open_links() as links, trio.open_nursery() as nursery:
            nursery.start_soon(server.answer_all)  # one context for all
            nursery.start_soon(server.give_up)
            post = Post(RunId("test"))
            post.add_route(ECHO, links.to(opened.url))
            for _ in range(3):
                with pytest.raises(ActorCrashedError, match="it does not answer WorkWanted"):
                    await post.ref(ECHO, sender=ME).ask(WANTED, timeout_s=20)
            nursery.cancel_scope.cancel()

    assert heard == 3
