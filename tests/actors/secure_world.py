"""Certificates for tests, and a node that listens with them while a bystander keeps asking."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pynng
import trio

from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.nng import NngLinks, open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.tls import Peers, Security
from envs_node.deploy.authority import Authority
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.search import Idle, WorkWanted
from tests.actors.node_process import EchoActor

ECHO = ActorName("echo")
TLS = "tls+tcp://127.0.0.1:0"
DEADLINE_S = 30


async def until(claim: Callable[[], object]) -> None:
    """Poll a claim; the test fails when it does not come true in time."""
    for _ in range(1000):
        if claim():
            return
        await trio.sleep(0.01)
    raise AssertionError("it did not come true within 10 s")


class World:
    """An authority, a head that listens, and a bystander."""

    def __init__(self, root: Path, *, is_open: bool = True) -> None:
        self.root = root
        self.authority = Authority.open(root, time.time())
        self.peers = Peers(is_open=is_open)
        self.post = Post(RunId("r"))
        self.url = ""
        self.answers = 0

    def node(self, name: str, *, authority: Authority | None = None) -> Security:
        """What a node of this name proves itself with."""
        signer = authority or self.authority
        where = self.root / f"{signer.digest[:8]}-{name}"
        return signer.equip(name, where, now_s=time.time())

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen, with an echo actor behind it; the bystander must have been answered meanwhile."""
        own = self.root / "own"
        head = self.authority.equip("box-head", own, now_s=time.time(), is_head=True)
        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(run_actor, EchoActor(), ECHO, self.post)
                self.url = await nursery.start(self._serve, head)
                async with open_links(security=self.node("bystander")) as links:
                    asking = trio.CancelScope()
                    nursery.start_soon(self._stand_by, links, asking)
                    yield
                    seen = self.answers
                    await until(lambda: self.answers >= seen + 3)
                    asking.cancel()
                nursery.cancel_scope.cancel()

    def ref(self, links: NngLinks, sender: str, to: ActorName = ECHO) -> Ref:
        """A reference to an actor of this head."""
        post = Post(RunId("r"))
        post.add_route("", links.to(self.url))
        return post.ref(to, sender=ActorName(sender))

    async def _serve(
        self, security: Security, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await serve(
            self.post.deliver,
            TLS,
            security=security,
            peers=self.peers,
            task_status=task_status,
        )

    async def _stand_by(self, links: NngLinks, asking: trio.CancelScope) -> None:
        ref = self.ref(links, "work/bystander-0")
        with asking:
            while True:
                assert isinstance(await ref.ask(WorkWanted(worker=ECHO), timeout_s=5), Idle)
                self.answers += 1
                await trio.sleep(0.01)


def dial_at_last(socket_: pynng.Socket, url: str) -> None:
    """Dial, and again where the handshake was cut short; who does not wait does so by itself."""
    for _ in range(4):
        try:
            socket_.dial(url, block=True)
        except pynng.CryptoError:
            continue
        return
    socket_.dial(url, block=True)
