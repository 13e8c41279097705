"""The transport between processes: nng request and reply, one context a call."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import NoReturn

import msgspec
import pynng
import structlog
import trio

from envs_node.actors.address import check_address, parse_address
from envs_node.actors.mailbox import ActorCrashedError, MailboxFullError
from envs_node.actors.memory import Slot
from envs_node.actors.sockets import (
    Listening,
    dial,
    failed_handshakes,
    listening,
    redial,
    relisten,
)
from envs_node.actors.tls import Peers, Security
from envs_node.actors.transport import Deliver
from envs_node.messages import codec
from envs_node.messages.base import Envelope, Message
from envs_node.messages.lifecycle import ActorFailed

_CALLS_MAX = 128
"""Requests under way at once, of a client and of a server; the rest wait their turn."""
TELLS_MAX = 256
_TELL_S = 10.0
"""How long a told message is tried; after that the receiver's node is taken for dead."""
_ANSWER_S = 900.0
"""How long a server's context is kept for an answer that does not come."""
_RENEWAL_S = 60.0
"""How often we look whether our certificate was renewed."""
_LOOK_S = 5.0
"""How often we look for peers that could not even connect."""
_NO_ANSWER = b""
_TOLD = b"\x00"
"""Stands before a message that is told: it is acknowledged once it lies in the mailbox. No encoded
envelope begins with it."""


async def _send(context: pynng.Context, data: bytes) -> None:
    """Send, and keep owning the bytes when that fails.

    pynng takes a message for sent as soon as sending begins, so one whose sending is cancelled
    would never be freed.
    """
    message = pynng.Message(data)
    is_sent = False
    try:
        await context.asend_msg(message)
        is_sent = True
    finally:
        if not is_sent:
            message._mem_freed = False


class NngClient:
    """A `Transport` to one node. Open it with `NngLinks`."""

    def __init__(self, url: str, security: Security | None = None) -> None:
        self.url = url
        self._security = security
        self._socket = dial(url, security)
        self._free: list[pynng.Context] = []
        self._calls = trio.Semaphore(_CALLS_MAX)
        self._told: deque[tuple[bytes, trio.Event]] = deque()
        self._news = trio.Event()
        self._lost = 0

    async def ask(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Send a request after everything told before it, and wait for its answer."""
        data = codec.encode(envelope)
        if self._told:
            await self._told[-1][1].wait()
        try:
            reply = await self._call(data)
        except pynng.Closed as error:
            raise ActorCrashedError(envelope.to, "the way to it was closed here") from error
        if reply == _NO_ANSWER:
            return None
        answer: Envelope[Message] = codec.decode(reply)  # type: ignore[assignment]  # narrower
        if answer.cause != envelope.id:
            raise codec.CodecError(f"{self.url} answered {answer.cause}, not {envelope.id}")
        return answer

    def tell(self, envelope: Envelope[Message]) -> None:
        """Queue a message; what is told is sent in order."""
        if len(self._told) >= TELLS_MAX:
            raise MailboxFullError(envelope.to)
        self._told.append((_TOLD + codec.encode(envelope), trio.Event()))
        self._news.set()

    def statistics(self) -> dict[str, int]:
        """Told messages that wait, and those given up."""
        return {"waiting": len(self._told), "lost": self._lost}

    async def send_told(self) -> NoReturn:
        """Send what is told, one after another. Runs as long as the client is open."""
        while True:
            while self._told:
                data, is_sent = self._told[0]
                try:
                    with trio.move_on_after(_TELL_S) as scope:
                        await self._call(data)
                    self._lost += scope.cancelled_caught
                finally:
                    self._told.popleft()
                    is_sent.set()
            self._news = trio.Event()
            await self._news.wait()

    def renew(self) -> None:
        """Connect anew, with the certificate as it is now; what waits for an answer waits on."""
        redial(self._socket, self.url, self._security)

    def close(self) -> None:
        """Close the contexts, then the socket."""
        for context in self._free:
            context.close()
        self._free.clear()
        self._socket.close()

    async def _call(self, data: bytes) -> bytes:
        """One request and its reply on a context of its own."""
        async with self._calls:
            context = self._free.pop() if self._free else self._socket.new_context()
            is_whole = False
            try:
                await _send(context, data)
                reply: bytes = await context.arecv()
                is_whole = True
            finally:
                if is_whole:
                    self._free.append(context)
                else:
                    with contextlib.suppress(pynng.Closed):  # the socket was closed meanwhile
                        context.close()
            return reply


class NngLinks:
    """The clients of a process, one a node, opened when first wanted."""

    def __init__(
        self, nursery: trio.Nursery, *, allow_plain: bool, security: Security | None = None
    ) -> None:
        self._nursery = nursery
        self._allow_plain = allow_plain
        self._security = security
        self._clients: dict[str, NngClient] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    def to(self, url: str) -> NngClient:
        """The client of the node at this address; it need not be there yet.

        Raises:
            AddressError, PlainSocketError: see `check_address`.
            SecurityError: our certificate cannot be used.
        """
        client = self._clients.get(url)
        if client is None:
            check_address(url, allow_plain=self._allow_plain)
            client = self._clients[url] = NngClient(url, self._security)
            scope = self._scopes[url] = trio.CancelScope()
            self._nursery.start_soon(_send_told, client, scope)
        return client

    def drop(self, url: str) -> None:
        """Close the way to a node that has gone: whoever waits there gets `ActorCrashedError`."""
        client = self._clients.pop(url, None)
        if client is not None:
            self._scopes.pop(url).cancel()
            client.close()

    async def keep_renewed(self, security: Security) -> NoReturn:
        """Connect anew whenever our certificate was renewed."""
        stamp = security.stamp()
        while True:
            await trio.sleep(_RENEWAL_S)
            if security.stamp() != stamp:
                stamp = security.stamp()
                for client in self._clients.values():
                    if parse_address(client.url).is_secure:
                        client.renew()

    def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


async def _send_told(client: NngClient, scope: trio.CancelScope) -> None:
    with scope:
        await client.send_told()


@contextlib.asynccontextmanager
async def open_links(
    *, allow_plain: bool = False, security: Security | None = None
) -> AsyncIterator[NngLinks]:
    """Hold the clients of a process open; with `security` they prove who we are."""
    links: NngLinks | None = None
    try:
        async with trio.open_nursery() as nursery:
            links = NngLinks(nursery, allow_plain=allow_plain, security=security)
            if security is not None:
                nursery.start_soon(links.keep_renewed, security)
            yield links
            nursery.cancel_scope.cancel()
    finally:
        if links is not None:
            links.close()


async def serve(
    deliver: Deliver,
    url: str,
    *,
    calls_max: int = _CALLS_MAX,
    allow_plain: bool = False,
    security: Security | None = None,
    peers: Peers | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Take requests from other processes until cancelled.

    Args:
        deliver: `Post.deliver` of this process.
        url: `tcp://127.0.0.1:0` picks a free port.
        security: what we prove ourselves with at a `tls+tcp` address.
        peers: says who may say what there; unless given, strangers are refused.
        task_status: is given the address with the real port.

    Raises:
        AddressError: it is taken, or no address.
        PlainSocketError: see `check_address`.
        SecurityError: the certificate cannot be used.
    """
    check_address(url, allow_plain=allow_plain)
    peers = (peers or Peers()) if parse_address(url).is_secure else None
    with listening(url, security, peers) as opened:
        async with trio.open_nursery() as nursery:
            server = _Server(deliver, peers)
            for _ in range(calls_max):
                nursery.start_soon(server.answer_all, opened.socket)
            if peers is not None and security is not None:
                nursery.start_soon(_keep_secure, opened, security, peers)
            task_status.started(opened.url)
            await trio.sleep_forever()
    raise AssertionError("it serves until it is cancelled")


async def _keep_secure(opened: Listening, security: Security, peers: Peers) -> NoReturn:
    """Tell of peers that failed to prove themselves; listen anew with a renewed certificate."""
    stamp = security.stamp()
    waited_s = 0.0
    while True:
        await trio.sleep(_LOOK_S)
        for reason in failed_handshakes(opened.socket):
            peers.log_refused(opened.url, "", reason)
        waited_s += _LOOK_S
        if waited_s >= _RENEWAL_S and security.stamp() != stamp:
            waited_s, stamp = 0.0, security.stamp()
            relisten(opened.socket, opened.url, security, peers)


class _Server:
    """Answers the requests of a socket, one a context."""

    def __init__(self, deliver: Deliver, peers: Peers | None = None) -> None:
        self._deliver = deliver
        self._peers = peers
        self._refused: set[str] = set()

    async def answer_all(self, socket: pynng.Rep0) -> NoReturn:
        """Receive, deliver, answer. Between receiving and delivering nothing is awaited."""
        with socket.new_context() as context:
            while True:
                slot = Slot()
                if self._peers is None:
                    self._take(await context.arecv(), slot)
                else:
                    self._take_proved(await context.arecv_msg(), slot, self._peers)
                with trio.move_on_after(_ANSWER_S):
                    await slot.get()
                await _send(context, _encode_answer(slot.answer))

    def _take_proved(self, message: pynng.Message, slot: Slot, peers: Peers) -> None:
        """Take what came by a pipe of which we know who is at its end."""
        pipe, data = message.pipe, message.bytes
        if pipe is None or not peers.is_here(pipe.id) or peers.is_too_long(pipe, len(data)):
            slot.put(None)
        else:
            self._take(data, slot, pipe)

    def _take(self, data: bytes, slot: Slot, pipe: pynng.Pipe | None = None) -> None:
        is_told = data.startswith(_TOLD)
        try:
            envelope: Envelope[Message] = codec.decode(  # type: ignore[assignment]  # narrower
                data[len(_TOLD) :] if is_told else data
            )
            refused = self._peers.refusal(pipe, envelope) if self._peers and pipe else None
            if refused is not None:
                slot.put(refused)
            else:
                self._deliver(envelope, None if is_told else slot.put)
        except (codec.CodecError, MailboxFullError) as error:
            if not (self._peers and pipe and self._peers.reject_garbage(pipe)):
                self._refuse(str(error))
            slot.put(None)
        if is_told:
            slot.put(None)

    def _refuse(self, reason: str) -> None:
        if reason not in self._refused and len(self._refused) < 100:
            self._refused.add(reason)
            structlog.get_logger().warning("message.refused", reason=reason)


def _encode_answer(answer: Envelope[Message] | None) -> bytes:
    if answer is None:
        return _NO_ANSWER
    try:
        return codec.encode(answer)
    except codec.CodecError as error:
        failed = ActorFailed(to=answer.sender, reason=str(error))
        return codec.encode(_with_message(answer, failed))


def _with_message(envelope: Envelope[Message], message: Message) -> Envelope[Message]:
    return msgspec.structs.replace(envelope, message=message)
