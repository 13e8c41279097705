"""How much a message round trip costs beside bare pynng: same bytes, same run, taken in turns.

Ours is an ask from one process to an actor of another: envelope, codec, post, mailbox, loop and
back. The bare one is a REQ context against an echo that knows nothing of messages.

    python benchmarks/message_round_trip.py [--rounds 15] [--trips 200]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pynng
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.messages import codec
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, Message, RunId
from envs_node.messages.desktop import FrameFetched

ME = ActorName("benchmark")
ECHO = ActorName("echo")
SIZES_BYTES = (100, 500_000)

Trip = Callable[[], Awaitable[object]]


class EchoActor(Actor[Message]):
    """Answers a message by itself."""

    async def hear(self, message: Message) -> Message:
        """Answer."""
        return message


async def serve_both() -> None:
    """The other process: our echo and a bare one; writes both addresses."""
    post = Post(RunId("benchmark"))
    with pynng.Rep0(listen="tcp://127.0.0.1:0", recv_max_size=WIRE_BYTES_MAX) as bare:
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, EchoActor(), ECHO, post)
            url = await nursery.start(serve, post.deliver, "tcp://127.0.0.1:0")
            sys.stdout.write(f"{url} tcp://{bare.listeners[0].local_address}\n")
            sys.stdout.flush()
            with bare.new_context() as context:
                while True:
                    await context.asend(await context.arecv())


async def measure(ours: Trip, bare: Trip, memory: Trip, rounds: int, trips: int) -> list[list[int]]:
    """Time rounds of trips, the three in turns. Nanoseconds a trip, one list each."""
    times: list[list[int]] = [[], [], []]
    for number in range(rounds + 1):
        for kind, trip in enumerate((ours, bare, memory)):
            started_ns = time.perf_counter_ns()
            for _ in range(trips):
                await trip()
            if number > 0:  # the first round warms up
                times[kind].append((time.perf_counter_ns() - started_ns) // trips)
    return times


def report(size: int, times: list[list[int]]) -> dict[str, object]:
    """Medians and quartiles, and ours as a multiple of the bare one, round by round."""
    ours, bare, memory = times
    return {
        "payload_bytes": size,
        "ours_nng_us": _spread([t / 1000 for t in ours]),
        "bare_pynng_us": _spread([t / 1000 for t in bare]),
        "ours_memory_us": _spread([t / 1000 for t in memory]),
        "nng_over_bare": _spread([a / b for a, b in zip(ours, bare, strict=True)]),
        "memory_over_bare": _spread([a / b for a, b in zip(memory, bare, strict=True)]),
    }


def _spread(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 3), "q1": round(low, 3), "q3": round(high, 3)}


async def compare(url: str, bare_url: str, rounds: int, trips: int) -> list[dict[str, object]]:
    """Measure every size."""
    results = []
    near, far = Post(RunId("benchmark")), Post(RunId("benchmark"))
    with pynng.Req0(dial=bare_url, recv_max_size=WIRE_BYTES_MAX) as socket:
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, EchoActor(), ECHO, near)
            far.add_route(ECHO, links.to(url))
            for size in SIZES_BYTES:
                message = FrameFetched(frame="f", png=bytes(size))
                data = codec.encode(far.envelope(message, sender=ME, to=ECHO))

                async def ours(message: FrameFetched = message) -> object:
                    return await far.ref(ECHO, sender=ME).ask(message, timeout_s=60)

                async def memory(message: FrameFetched = message) -> object:
                    return await near.ref(ECHO, sender=ME).ask(message, timeout_s=60)

                async def bare(data: bytes = data) -> object:
                    with socket.new_context() as context:
                        await context.asend(data)
                        return await context.arecv()

                few = trips if size < 10_000 else max(trips // 4, 1)
                results.append(report(len(data), await measure(ours, bare, memory, rounds, few)))
            nursery.cancel_scope.cancel()
    return results


def main() -> None:
    """Start the other process, measure, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--trips", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        trio.run(serve_both)
        return
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, bare_url = process.stdout.readline().split()
            results = trio.run(compare, url, bare_url, options.rounds, options.trips)
        finally:
            process.kill()
    sys.stdout.write(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
