"""How much a message round trip costs beside bare pynng: same bytes, same run, taken in turns.

Over tcp and over ipc, small messages and frames; and, for scale, over the memory transport.

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
import tempfile
import time
from collections.abc import Awaitable, Callable

import pynng
import trio
from timing import machine

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
SCHEMES = ("tcp", "ipc")

Trip = Callable[[], Awaitable[object]]


class EchoActor(Actor[Message]):
    """Answers a message by itself."""

    async def hear(self, message: Message) -> Message:
        """Answer."""
        return message


async def serve_both(folder: str) -> None:
    """The other process: our echo and a bare one, by tcp and ipc; writes their addresses."""
    post = Post(RunId("benchmark"))
    urls = []
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, EchoActor(), ECHO, post)
        for scheme in SCHEMES:
            for kind in (serve_ours, serve_bare):
                free = "tcp://127.0.0.1:0"
                url = free if scheme == "tcp" else f"ipc://{folder}/{kind.__name__}"
                urls.append(await nursery.start(kind, post, url))
        sys.stdout.write(" ".join(urls) + "\n")
        sys.stdout.flush()


async def serve_ours(post: Post, url: str, task_status: trio.TaskStatus[str]) -> None:
    """Our way."""
    await serve(post.deliver, url, task_status=task_status)


async def serve_bare(_post: Post, url: str, task_status: trio.TaskStatus[str]) -> None:
    """An echo that knows nothing of messages."""
    with pynng.Rep0(recv_max_size=WIRE_BYTES_MAX) as bare:
        address = bare.listen(url).local_address
        task_status.started(f"tcp://{address}" if url.startswith("tcp") else url)
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


def report(scheme: str, size: int, times: list[list[int]]) -> dict[str, object]:
    """Medians and quartiles, and ours as a multiple of the bare one, round by round."""
    ours, bare, memory = times
    return {
        "scheme": scheme,
        "payload_bytes": size,
        "ours_nng_us": _spread([t / 1000 for t in ours]),
        "bare_pynng_us": _spread([t / 1000 for t in bare]),
        "ours_memory_us": _spread([t / 1000 for t in memory]),
        "nng_over_bare": _spread([a / b for a, b in zip(ours, bare, strict=True)]),
        "nng_over_memory": _spread([a / b for a, b in zip(ours, memory, strict=True)]),
    }


def _spread(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 3), "q1": round(low, 3), "q3": round(high, 3)}


async def compare(urls: list[str], rounds: int, trips: int) -> list[dict[str, object]]:
    """Measure every size by every scheme."""
    results = []
    for scheme, url, bare_url in zip(SCHEMES, urls[::2], urls[1::2], strict=True):
        for size in SIZES_BYTES:
            few = trips if size < 10_000 else max(trips // 4, 1)
            results.append(await compare_one(scheme, url, bare_url, size, rounds, few))
    return results


async def compare_one(
    scheme: str, url: str, bare_url: str, size: int, rounds: int, trips: int
) -> dict[str, object]:
    """Measure one size by one scheme."""
    near, far = Post(RunId("benchmark")), Post(RunId("benchmark"))
    message = FrameFetched(frame="f", png=bytes(size))
    data = codec.encode(far.envelope(message, sender=ME, to=ECHO))

    async def ours() -> object:
        return await far.ref(ECHO, sender=ME).ask(message, timeout_s=60)

    async def memory() -> object:
        return await near.ref(ECHO, sender=ME).ask(message, timeout_s=60)

    with pynng.Req0(dial=bare_url, recv_max_size=WIRE_BYTES_MAX) as socket:

        async def bare() -> object:
            with socket.new_context() as context:
                await context.asend(data)
                return await context.arecv()

        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, EchoActor(), ECHO, near)
            far.add_route(ECHO, links.to(url))
            times = await measure(ours, bare, memory, rounds, trips)
            nursery.cancel_scope.cancel()
    return report(scheme, len(data), times)


def main() -> None:
    """Start the other process, measure, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--trips", type=int, default=200)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        trio.run(serve_both, options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--serve", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                urls = process.stdout.readline().split()
                results = trio.run(compare, urls, options.rounds, options.trips)
            finally:
                process.kill()
    sys.stdout.write(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
