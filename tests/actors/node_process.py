"""A node of its own: an echo actor behind an address, in a process that a test can kill.

Run with the address as the only argument; writes the real one on its standard output.
"""

from __future__ import annotations

import sys
import time

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import serve
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.search import Idle, Tick, WorkWanted


class EchoActor(Actor[WorkWanted | FetchFrame | Tick]):
    """Counts what it hears; a frame named `N` is answered by N bytes."""

    def __init__(self) -> None:
        self.count = 0

    async def hear(self, message: WorkWanted | FetchFrame | Tick) -> Message | None:
        self.count += 1
        match message:
            case WorkWanted():
                return Idle(retry_ms=self.count)
            case FetchFrame(frame=size):
                return FrameFetched(frame=size, png=bytes(int(size)))
        return None


async def main(url: str) -> None:
    """Serve until killed."""
    post = Post(RunId("r"), clock_ns=time.time_ns)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, EchoActor(), ActorName("echo"), post)
        real_url = await nursery.start(serve, post.deliver, url)
        sys.stdout.write(f"{real_url}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
