"""nng contexts by raw calls: each request gets its own reply, whatever is cancelled or closed."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pynng
import pytest
import trio

from envs_node.actors.context import ReplyContext, RequestContext

DEADLINE_S = 30


def as_bytes(data: memoryview, _pipe: Any) -> bytes:
    return bytes(data)


async def received(context: ReplyContext) -> bytes:
    """The next request."""
    found: list[bytes] = []
    await context.receive(lambda data, _pipe: found.append(bytes(data)))
    return found[0]


async def echo(socket: pynng.Rep0) -> None:
    context = ReplyContext(socket)
    try:
        while True:
            data = await received(context)
            if data.startswith(b"slow"):
                await trio.sleep(0.002)
            context.answer(data)
            await context.wait_sent()
    finally:
        context.close()


@asynccontextmanager
async def echoing(folder: Path, contexts: int) -> AsyncIterator[pynng.Req0]:
    """A socket that is connected to echoes."""
    url = f"ipc://{folder}/echo"
    with trio.fail_after(DEADLINE_S), pynng.Rep0(listen=url) as there, pynng.Req0(dial=url) as here:
        async with trio.open_nursery() as nursery:
            for _ in range(contexts):
                nursery.start_soon(echo, there)
            yield here
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
async def test_what_is_sent_is_what_is_taken(tmp_path: Path, size: int) -> None:
    data = Random(size).randbytes(size)
    async with echoing(tmp_path, 1) as socket:
        context = RequestContext(socket)
        answers = [await context.call(data, as_bytes) for _ in range(3)]
        context.close()

    assert answers == [data] * 3


async def test_each_request_gets_its_own_reply_amid_random_cancels(tmp_path: Path) -> None:
    chance, done = Random(7), [0, 0]

    async def call_often(socket: pynng.Req0, caller: int) -> None:
        for number in range(120):
            kind = b"slow" if chance.random() < 0.5 else b"fast"
            data = kind + f"/{caller}/{number}".encode()
            context, answer = RequestContext(socket), b""
            with trio.move_on_after(chance.choice([0, 0.001, 0.003, 10])) as scope:
                answer = await context.call(data, as_bytes)
            context.close()
            done[scope.cancelled_caught] += 1
            assert answer == (b"" if scope.cancelled_caught else data)

    async with echoing(tmp_path, 4) as socket, trio.open_nursery() as nursery:
        for caller in range(10):
            nursery.start_soon(call_often, socket, caller)

    assert min(done) > 100


async def test_a_context_can_be_used_again_after_a_cancelled_call(tmp_path: Path) -> None:
    async with echoing(tmp_path, 1) as socket:
        context = RequestContext(socket)
        for number in range(50):
            with trio.move_on_after(0):
                await context.call(b"slow", as_bytes)
            assert await context.call(b"%d" % number, as_bytes) == b"%d" % number
        context.close()


@pytest.mark.parametrize("is_connected", [True, False])
async def test_closing_the_socket_ends_the_calls_on_it(tmp_path: Path, is_connected: bool) -> None:
    url = f"ipc://{tmp_path}/deaf"
    with trio.fail_after(DEADLINE_S), pynng.Rep0() as deaf, pynng.Req0() as socket:
        if is_connected:
            deaf.listen(url)
        socket.dial(url, block=is_connected)
        ended: list[bool] = []

        async def call() -> None:
            context = RequestContext(socket)
            with pytest.raises(pynng.Closed):
                await context.call(b"anybody?", as_bytes)
            context.close()
            ended.append(True)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call)
            await trio.sleep(0.05)
            socket.close()

    assert ended == [True] * 20


async def test_an_answer_to_an_asker_that_is_gone_is_dropped(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/echo"
    with trio.fail_after(DEADLINE_S), pynng.Rep0(listen=url) as there:
        context = ReplyContext(there)
        for _ in range(20):
            with pynng.Req0(dial=url) as here:
                await here.asend(b"x")
                await received(context)
            context.answer(bytes(100_000))
            assert await context.wait_sent()
        context.close()


async def test_answers_that_are_not_taken_are_dropped_in_time_and_others_get_theirs() -> None:
    results: list[bool] = []

    async def answer(socket: pynng.Rep0) -> None:
        context = ReplyContext(socket, send_s=0.2)
        try:
            while True:
                data = await received(context)
                context.answer(bytes(8_000_000) if data == b"big" else data)
                results.append(await context.wait_sent())
        finally:
            context.close()

    with trio.fail_after(DEADLINE_S), pynng.Rep0(listen="tcp://127.0.0.1:0") as there:
        address = there.listeners[0].local_address
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, there)
            host, _, port = str(address).rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as deaf:
                await deaf.send_all(b"\x00SP\x00\x00\x30\x00\x00")
                for number in range(4):
                    request = struct.pack(">QI", 7, 0x8000_0001 + number) + b"big"
                    await deaf.send_all(request)
                while results.count(False) < 3:  # noqa: ASYNC110  # another task adds to it
                    await trio.sleep(0.01)
                with pynng.Req0(dial=f"tcp://{address}") as good:
                    await good.asend(b"small")
                    assert await good.arecv() == b"small"
            nursery.cancel_scope.cancel()

    assert results[:4] == [True, False, False, False], "one is on its way for ever"


async def test_a_request_is_read_before_its_task_has_its_turn_and_its_error_is_the_tasks(
    tmp_path: Path,
) -> None:
    url = f"ipc://{tmp_path}/echo"
    order: list[str] = []

    def read(data: memoryview, _pipe: Any) -> None:
        order.append("read")
        if data == b"bad":
            raise ValueError("bad")

    async def serve(socket: pynng.Rep0) -> None:
        context = ReplyContext(socket)
        try:
            with pytest.raises(ValueError, match="bad"):
                await context.receive(read)
            order.append("raised")
            context.answer(b"sorry")
            await context.receive(read)
            order.append("taken")
            context.answer(b"well")
        finally:
            await context.wait_sent()
            context.close()

    with trio.fail_after(DEADLINE_S), pynng.Rep0(listen=url) as there, pynng.Req0(dial=url) as here:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, there)
            asking = RequestContext(here)
            answers = [await asking.call(data, as_bytes) for data in (b"bad", b"good")]
            asking.close()

    assert answers == [b"sorry", b"well"]
    assert order == ["read", "raised", "read", "taken"]
