"""Any frame that another process sends to a node: answered, and it goes on serving.

Three send: at a plain address, by TLS as a node, and by TLS as a stranger.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pynng
import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.frames import BUSY, NO_ANSWER, REFUSED, TOLD
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import serve
from envs_node.actors.post import Post
from envs_node.actors.sockets import dial
from envs_node.actors.tls import AUTHORITY, STRANGER, Peers, Security, sender_belongs
from envs_node.deploy.authority import Authority
from envs_node.messages import codec
from envs_node.messages.base import ActorName, Envelope, Message, RunId
from envs_node.messages.enrol import Enrol, FetchAuthority
from envs_node.messages.search import Idle, WorkWanted
from tests.fuzz import seeds as from_messages
from tests.fuzz.marks import Check, shape
from tests.fuzz.memory_folder import memory_folder

_PLAIN, _NODE, _STRANGER = range(3)
_ANSWER_MS = 4000
_NAME = "gpu-0"
_ECHO = ActorName("echo")
_URLS = ("tcp://127.0.0.1:0", "tls+tcp://127.0.0.1:0")


def seeds() -> list[bytes]:
    """Each message asked at the plain address, and some told and asked by all three."""
    wanted = WorkWanted(worker=ActorName(f"work/{_NAME}-0"))
    some = [
        from_messages.addressed(wanted, sender=f"work/{_NAME}-0"),
        from_messages.addressed(wanted, sender=f"work/{_NAME}-0", to="nobody"),
        from_messages.addressed(FetchAuthority(), sender=STRANGER, to=AUTHORITY),
        from_messages.addressed(
            Enrol(node=_NAME, request=b"x", token="x"), sender=STRANGER, to=AUTHORITY
        ),
    ]
    found = [bytes([_PLAIN]) + data for data in from_messages.envelopes()]
    for sender in (_PLAIN, _NODE, _STRANGER):
        for data in (*some, b"", b"\x80"):
            found += [bytes([sender]) + data, bytes([sender]) + TOLD + data]
    return found


class _Echo(Actor[Message]):
    """Hears everything, and remembers who said it last."""

    def __init__(self) -> None:
        self.heard: Envelope[Message] | None = None

    async def hear(self, message: Message) -> Message:
        self.heard = self.envelope
        return Idle(retry_ms=1)


@contextlib.contextmanager
def opened() -> Iterator[Check]:
    """The check of one input, with a node that serves in a thread of its own."""
    with memory_folder() as root, contextlib.ExitStack() as stack:
        node = _Node(root)
        stack.enter_context(structlog.testing.capture_logs())
        thread = threading.Thread(target=trio.run, args=(node.run,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(node.stop)
        plain, secure = node.urls()
        yield _Senders(node, plain, secure, stack).check


class _Node:
    """A head that listens at a plain and at a secure address."""

    def __init__(self, root: Path) -> None:
        self.authority = Authority.open(root / "head", time.time())
        self.root = root
        self.actors = {_ECHO: _Echo(), AUTHORITY: _Echo()}
        self._opened: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self) -> None:
        """Serve until stopped."""
        self._token = trio.lowlevel.current_trio_token()
        own = self.authority.equip("box", self.root / "own", now_s=time.time(), is_head=True)
        post = Post(RunId("r"))
        with self._scope:
            async with trio.open_nursery() as nursery:
                for name, actor in self.actors.items():
                    await nursery.start(run_actor, actor, name, post)
                for url in _URLS:
                    serving = partial(
                        serve, post.deliver, url, security=own, peers=Peers(is_open=True)
                    )
                    self._opened.put(await nursery.start(serving))

    def urls(self) -> list[str]:
        """Where it listens."""
        return [self._opened.get(timeout=10) for _ in _URLS]

    def stop(self) -> None:
        """Let it end. Called in another thread."""
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)


class _Senders:
    """Who sends, and what must be true of what comes back."""

    def __init__(self, node: _Node, plain: str, secure: str, stack: contextlib.ExitStack) -> None:
        self._node = node
        known = node.authority.equip(_NAME, node.root / _NAME, now_s=time.time())
        unknown = Security(node="x", authority=known.authority)
        self._sockets = [dial(plain), dial(secure, known), dial(secure, unknown)]
        for socket in self._sockets:
            stack.callback(socket.close)
            socket.recv_timeout = socket.send_timeout = _ANSWER_MS
            socket.reconnect_time_min = socket.reconnect_time_max = 1

    def check(self, data: bytes) -> Iterator[str]:
        """Send one frame."""
        sender, frame = (data[0] % len(self._sockets), data[1:]) if data else (_PLAIN, b"")
        for actor in self._node.actors.values():
            actor.heard = None
        try:
            self._sockets[sender].send(frame)
            answer = bytes(self._sockets[sender].recv_msg().bytes)
        except pynng.Timeout as error:
            raise AssertionError("no answer") from error
        is_told = frame.startswith(TOLD)
        try:
            envelope = codec.decode(frame[1:] if is_told else frame)
        except codec.CodecError:
            assert answer.startswith(REFUSED), f"garbage is answered by {answer[:80]!r}"
            yield f"{sender} {shape(answer[1:].decode())}"
            return
        self._check_heard(sender)
        if answer in (NO_ANSWER, BUSY):
            yield f"{sender} {is_told} {answer!r}"
            return
        answered = codec.decode(answer)
        assert answered.cause == envelope.id, "the answer to another request"
        yield f"{sender} {is_told} {type(envelope.message).__name__}"
        yield f"{sender} {is_told} {shape(getattr(answered.message, 'reason', ''))}"

    def _check_heard(self, sender: int) -> None:
        """Nobody was heard under a name that is not theirs."""
        for name, actor in self._node.actors.items():
            heard = actor.heard
            if heard is None or sender == _PLAIN:
                continue
            if sender == _NODE:
                assert sender_belongs(heard.sender, _NAME), f"heard as {heard.sender}"
            else:
                assert name == AUTHORITY, f"a stranger was heard by {name}"
                assert heard.sender == STRANGER, f"a stranger was heard as {heard.sender}"
