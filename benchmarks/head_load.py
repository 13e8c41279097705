"""How fast a head answers many connected desktop nodes, each with a socket of its own.

The head is a process with the real HeadActor and a scheduler that has no work. Every simulated node
sends on a jittered schedule of its own, heartbeats and requests for work in turns. Answer time is
counted from when the message was due, so that a slow head or a late client does not hide it.

    python benchmarks/head_load.py [--nodes 500] [--rate 2] [--seconds 30] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from contextlib import AsyncExitStack

import trio
from timing import machine

from envs_node.actors.base import Actor
from envs_node.actors.head.actor import HeadActor, Standing
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, DesktopId, Message, RunId
from envs_node.messages.lifecycle import Join, StartRun
from envs_node.messages.search import Idle, WorkWanted
from envs_node.messages.status import DesktopReport, NodeReport

HEAD = ActorName("head")
SCHEDULER = ActorName("scheduler")
DESKTOPS = 8
WARM_UP_S = 5.0
CONNECT_S = 0.01


class NoRuns:
    """No run is on, and none can be started."""

    async def start(self, _request: StartRun) -> None:
        """Start nothing."""

    async def stop(self, _run: str) -> None:
        """Stop nothing."""

    async def standing(self) -> Standing:
        """Nothing stands."""
        return Standing()


class NoWorkActor(Actor[WorkWanted]):
    """A scheduler without work."""

    async def hear(self, _message: WorkWanted) -> Message:
        """Answer."""
        return Idle(retry_ms=500)


async def serve_head() -> None:
    """The head's process; writes its address."""
    post = Post(RunId("benchmark"))
    async with trio.open_nursery() as nursery:
        head = HeadActor(NoRuns(), node="head-0", version="1")
        await nursery.start(run_actor, head, HEAD, post)
        await nursery.start(run_actor, NoWorkActor(), SCHEDULER, post)
        url = await nursery.start(serve, post.deliver, "tcp://127.0.0.1:0")
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()


def heartbeat(node: str) -> Join:
    """What a node of some desktops says of itself."""
    names = [f"{kind}/{node}-{n}" for kind in ("desktop", "replay") for n in range(DESKTOPS)]
    desktops = [
        DesktopReport(desktop_id=DesktopId(f"{node}-{n}"), state="working") for n in range(DESKTOPS)
    ]
    return Join(
        node=node,
        role="desktop",
        url="",
        actors=tuple(map(ActorName, names)),
        version="1",
        report=NodeReport(desktops=tuple(desktops)),
    )


class Load:
    """Simulated nodes, and how long each of their messages took."""

    def __init__(self, rate_hz: float) -> None:
        self.answers_ms: list[float] = []
        self.failed = 0
        self._period_s = 1 / rate_hz

    async def run_node(self, number: int, url: str, task_status: trio.TaskStatus[None]) -> None:
        """Connect, then send until cancelled."""
        node, chance = f"node-{number}", random.Random(number)
        sender = ActorName(f"work/{node}-0")
        post = Post(RunId("benchmark"))
        async with AsyncExitStack() as stack:
            links = await stack.enter_async_context(open_links())
            post.add_route("", links.to(url))
            head = post.ref(HEAD, sender=ActorName(f"node/{node}"))
            scheduler = post.ref(SCHEDULER, sender=sender)
            await head.ask(heartbeat(node), timeout_s=60)
            task_status.started()
            beat, wanted = heartbeat(node), WorkWanted(worker=sender)
            due_s = trio.current_time() + chance.uniform(0, 2 * self._period_s)
            async with trio.open_nursery() as nursery:
                while True:
                    for ref, message in ((head, beat), (scheduler, wanted)):
                        await trio.sleep_until(due_s)
                        nursery.start_soon(self._send, ref, message, due_s)
                        due_s += chance.uniform(0.5, 1.5) * self._period_s

    async def _send(self, ref: Ref, message: Message, due_s: float) -> None:
        try:
            await ref.ask(message, timeout_s=10)
        except (AskTimeoutError, ActorCrashedError):
            self.failed += 1
        self.answers_ms.append((trio.current_time() - due_s) * 1000)


def describe_round(answers_ms: list[float], failed: int, seconds: float) -> dict[str, float]:
    """Percentiles of one round."""
    cuts = statistics.quantiles(answers_ms, n=100)
    return {
        "messages_per_s": round(len(answers_ms) / seconds, 1),
        "failed": failed,
        "p50_ms": round(cuts[49], 2),
        "p90_ms": round(cuts[89], 2),
        "p99_ms": round(cuts[98], 2),
        "max_ms": round(max(answers_ms), 2),
    }


async def measure(url: str, options: argparse.Namespace) -> dict[str, object]:
    """Connect every node, warm up, measure the rounds."""
    load, rounds = Load(options.rate), []
    async with trio.open_nursery() as nursery:
        started_s = time.monotonic()
        async with trio.open_nursery() as connecting:
            for number in range(options.nodes):
                connecting.start_soon(nursery.start, load.run_node, number, url)
                await trio.sleep(CONNECT_S)
        connected_s = time.monotonic() - started_s
        await trio.sleep(WARM_UP_S)
        for _ in range(options.rounds):
            load.answers_ms, load.failed = [], 0
            await trio.sleep(options.seconds)
            rounds.append(describe_round(load.answers_ms, load.failed, options.seconds))
        nursery.cancel_scope.cancel()
    p99s = [found["p99_ms"] for found in rounds]
    return {
        "machine": machine(),
        "nodes": options.nodes,
        "rate_hz": options.rate,
        "connected_s": round(connected_s, 2),
        "rounds": rounds,
        "p99_ms": {"least": min(p99s), "most": max(p99s)},
    }


def main() -> None:
    """Start the head, measure, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rate", type=float, default=2.0, help="messages a second of each node")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    if options.serve:
        trio.run(serve_head)
        return
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            result = trio.run(measure, process.stdout.readline().strip(), options)
        finally:
            process.kill()
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
