"""A process that asks for many large frames at once, again and again; a line each time."""

from __future__ import annotations

import sys

import trio

from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import FetchFrame

MESSAGE = FetchFrame(desktop_id=DesktopId("d"), frame="1000000")


async def main(url: str) -> None:
    """Ask until killed."""
    async with open_links() as links:
        post = Post(RunId("r"))
        post.add_route("", links.to(url))
        ref = post.ref(ActorName("echo"), sender=ActorName("frames"))

        async def ask() -> None:
            await ref.ask(MESSAGE, timeout_s=30)

        while True:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(ask)
            sys.stdout.write("whole\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
