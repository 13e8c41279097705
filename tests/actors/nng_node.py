"""What the tests of the nng transport share: an echo behind an address, and ways to it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.nng import NngLinks, open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.refusals import Refusals
from envs_node.messages.base import ActorName, RunId
from tests.actors.node_process import EchoActor

ME = ActorName("test/me")
ECHO = ActorName("echo")
DEADLINE_S = 30
TCP = "tcp://127.0.0.1:0"
NODE = Path(__file__).with_name("node_process.py")


class Here(NamedTuple):
    """An echo actor behind an address of this process."""

    url: str
    actor: EchoActor
    post: Post
    """Where it is registered."""
    links: NngLinks
    """To dial it with."""
    refusals: Refusals

    def ref(self, name: str = ECHO) -> Ref:
        """A reference to an actor behind the address, from a post of its own."""
        return ref_to(self.links, self.url, name)


def ref_to(links: NngLinks, url: str, name: str = ECHO) -> Ref:
    """A reference to an actor at an address."""
    post = Post(RunId("r"))
    post.add_route("", links.to(url))
    return post.ref(ActorName(name), sender=ME)


@contextlib.asynccontextmanager
async def here(url: str = TCP, *, calls_max: int = 128) -> AsyncIterator[Here]:
    """An echo actor behind an address, and links."""
    post, actor, refusals = Post(RunId("r")), EchoActor(), Refusals()
    serving = partial(serve, post.deliver, url, calls_max=calls_max, refusals=refusals)
    with trio.fail_after(DEADLINE_S):
        async with open_links() as links, trio.open_nursery() as nursery:
            await nursery.start(run_actor, actor, ECHO, post)
            real_url = await nursery.start(serving)
            yield Here(real_url, actor, post, links, refusals)
            nursery.cancel_scope.cancel()


@contextlib.contextmanager
def node(url: str, program: Path = NODE) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that is given this address, and its first line: a node says its real address."""
    command = [sys.executable, "-W", "error", str(program), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
