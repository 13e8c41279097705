"""What strangers send to a node: refused, counted, logged once, and nobody else is disturbed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pynng
import pytest
import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.refusals import Refusals
from envs_node.messages import codec
from envs_node.messages.base import WIRE_BYTES_MAX
from envs_node.messages.search import Idle, WorkWanted
from tests.actors.nng_node import ME, Here, here, ref_to

WANTED = WorkWanted(worker=ME)
SP_REQUEST = b"\x00SP\x00\x00\x30\x00\x00"
"""How nng's request protocol introduces itself."""


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


async def until(claim: Callable[[], bool]) -> None:
    while not claim():  # noqa: ASYNC110  # it becomes true on a thread of nng
        await trio.sleep(0.01)


async def is_undisturbed(node: Here, count: int) -> bool:
    return await node.ref().ask(WANTED, timeout_s=10) == Idle(retry_ms=count)


async def test_empty_and_random_frames_are_refused_counted_and_logged_once() -> None:
    """Row E4."""
    chance = Random(4)
    frames = [b"", b"\x00", b"\x01", b"\x02", b"\x00\x00", b"\xff" * 64]
    frames += [chance.randbytes(chance.randint(1, 64)) for _ in range(100)]
    async with here() as node:
        with structlog.testing.capture_logs() as logs, pynng.Req0(dial=node.url) as stranger:
            for frame in frames:
                await stranger.asend(frame)
                assert (await stranger.arecv()).startswith(b"\x02not an envelope")

        assert node.refusals.statistics() == {"refused": len(frames)}
        assert await is_undisturbed(node, 1)
    assert [log["event"] for log in logs] == ["message.refused"]
    assert (logs[0]["peer"], logs[0]["reason"]) == ("127.0.0.1", "it is no message")


async def test_garbage_by_a_path_is_refused_as_well(tmp_path: Path) -> None:
    async with here(f"ipc://{tmp_path}/node") as node:
        with structlog.testing.capture_logs() as logs, pynng.Req0(dial=node.url) as stranger:
            await stranger.asend(b"\xff")
            await stranger.arecv()

        assert await is_undisturbed(node, 1)
    assert [log["reason"] for log in logs] == ["it is no message"]


async def test_bytes_that_are_no_frames_break_their_own_connection_alone() -> None:
    """Row E4, below nng: what is sent on the bare stream after a good introduction."""
    chance = Random(5)
    async with here() as node:
        for number in range(30):
            stream = await trio.open_tcp_stream("127.0.0.1", port(node.url))
            async with stream:
                await stream.send_all(SP_REQUEST)
                if number % 3 == 0:
                    await stream.send_all(struct.pack(">Q", 2**63 - number))
                elif number % 3 == 1:
                    await stream.send_all(struct.pack(">Q", number % 4) + bytes(number % 4))
                else:
                    await stream.send_all(chance.randbytes(200))

        assert await is_undisturbed(node, 1)


@pytest.mark.parametrize("kind", [pynng.Pub0, pynng.Push0])
async def test_a_socket_of_another_protocol_is_refused(kind: type[pynng.Socket]) -> None:
    """Row E2 and E3: no publish and no push is taken, so none is lost."""
    async with here() as node:
        with structlog.testing.capture_logs() as logs, kind() as stranger:
            stranger.dial(node.url, block=False)
            await until(lambda: node.refusals.statistics()["refused"] > 0)

        assert await is_undisturbed(node, 1)
    assert {(log["event"], log["reason"]) for log in logs} == {
        ("message.refused", "it does not speak nng's request protocol")
    }


async def test_an_http_client_is_refused() -> None:
    async with here() as node:
        with structlog.testing.capture_logs() as logs:
            stream = await trio.open_tcp_stream("127.0.0.1", port(node.url))
            async with stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
                with trio.fail_after(5):
                    while await stream.receive_some(100):
                        pass  # nng introduces itself, and hangs up
            await until(lambda: node.refusals.statistics()["refused"] > 0)

        assert await is_undisturbed(node, 1)
    assert [log["event"] for log in logs] == ["message.refused"]


async def test_connections_that_say_nothing_hold_up_nobody() -> None:
    async with here() as node:
        silent = [socket.create_connection(("127.0.0.1", port(node.url))) for _ in range(200)]
        try:
            assert await is_undisturbed(node, 1)
        finally:
            for connection in silent:
                connection.close()


async def test_a_stranger_who_sends_too_much_disturbs_nobody() -> None:
    async with here() as node:
        redial = {"reconnect_time_min": 20, "reconnect_time_max": 20}
        with pynng.Req0(dial=node.url, **redial) as stranger:
            await stranger.asend(bytes(WIRE_BYTES_MAX + 1))
            for count in range(1, 51):
                assert await is_undisturbed(node, count)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\xff garbage", "its answer was not an envelope"),
        (b"\x07", "its answer was not an envelope"),
        (b"\x02 go away", " go away"),
        (b"", "it does not answer WorkWanted"),
        (None, "it answered None, not "),
    ],
)
async def test_a_node_that_answers_garbage_fails_the_request_and_no_more(
    said: bytes | None, reason: str
) -> None:
    async with here() as node:
        with pynng.Rep0(listen="tcp://127.0.0.1:0") as stranger:
            ref = ref_to(node.links, f"tcp://{stranger.listeners[0].local_address}")

            async def answer() -> None:
                asked = await stranger.arecv()
                await stranger.asend(asked if said is None else said)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                with pytest.raises(ActorCrashedError, match=reason):
                    await ref.ask(WANTED, timeout_s=10)

        assert await is_undisturbed(node, 1)


async def test_a_node_that_answers_too_much_is_not_listened_to() -> None:
    async with here() as node:
        with pynng.Rep0(listen="tcp://127.0.0.1:0") as stranger:
            ref = ref_to(node.links, f"tcp://{stranger.listeners[0].local_address}")

            async def answer() -> None:
                await stranger.arecv()
                await stranger.asend(bytes(WIRE_BYTES_MAX + 1))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                with trio.move_on_after(0.5) as scope:
                    await ref.ask(WANTED, timeout_s=10)

        assert scope.cancelled_caught, "the request waits for an answer that can be taken"
        assert await is_undisturbed(node, 1)


def test_refusals_are_counted_and_their_kinds_logged_within_bounds() -> None:
    refusals = Refusals()

    with structlog.testing.capture_logs() as logs:
        for number in range(5000):
            refusals.note(f"10.0.{number // 250}.{number % 250}", "it is no message", "x" * 9999)
            refusals.note("10.0.0.1", "it is no message")

    assert refusals.statistics() == {"refused": 10_000}
    assert len(logs) == 200
    assert max(len(log["detail"]) for log in logs) == 300


def test_what_stands_before_an_envelope_is_never_the_beginning_of_one() -> None:
    for first in (b"\x00", b"\x01", b"\x02"):
        with pytest.raises(codec.CodecError):
            codec.decode(first)
