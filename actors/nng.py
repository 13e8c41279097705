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

from envs_node.actors.address import check_address, dial, listening
from envs_node.actors.mailbox import ActorCrashedError, MailboxFullError
from envs_node.actors.memory import Slot
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

    def __init__(self, url: str) -> None:
        self.url = url
        self._socket = dial(url)
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

    def __init__(self, nursery: trio.Nursery, *, allow_plain: bool) -> None:
        self._nursery = nursery
        self._allow_plain = allow_plain
        self._clients: dict[str, NngClient] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    def to(self, url: str) -> NngClient:
        """The client of the node at this address; it need not be there yet.

        Raises:
            AddressError, PlainSocketError: see `check_address`.
        """
        client = self._clients.get(url)
        if client is None:
            check_address(url, allow_plain=self._allow_plain)
            client = self._clients[url] = NngClient(url)
            scope = self._scopes[url] = trio.CancelScope()
            self._nursery.start_soon(_send_told, client, scope)
        return client

    def drop(self, url: str) -> None:
        """Close the way to a node that has gone: whoever waits there gets `ActorCrashedError`."""
        client = self._clients.pop(url, None)
        if client is not None:
            self._scopes.pop(url).cancel()
            client.close()

    def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


async def _send_told(client: NngClient, scope: trio.CancelScope) -> None:
    with scope:
        await client.send_told()


@contextlib.asynccontextmanager
async def open_links(*, allow_plain: bool = False) -> AsyncIterator[NngLinks]:
    """Hold the clients of a process open."""
    links: NngLinks | None = None
    try:
        async with trio.open_nursery() as nursery:
            links = NngLinks(nursery, allow_plain=allow_plain)
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
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Take requests from other processes until cancelled.

    Args:
        deliver: `Post.deliver` of this process.
        url: `tcp://127.0.0.1:0` picks a free port.
        task_status: is given the address with the real port.

    Raises:
        AddressError: it is taken, or no address.
        PlainSocketError: see `check_address`.
    """
    check_address(url, allow_plain=allow_plain)
    with listening(url) as (socket, real_url):
        async with trio.open_nursery() as nursery:
            server = _Server(deliver)
            for _ in range(calls_max):
                nursery.start_soon(server.answer_all, socket)
            task_status.started(real_url)
            await trio.sleep_forever()
    raise AssertionError("it serves until it is cancelled")


class _Server:
    """Answers the requests of a socket, one a context."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._refused: set[str] = set()

    async def answer_all(self, socket: pynng.Rep0) -> NoReturn:
        """Receive, deliver, answer. Between receiving and delivering nothing is awaited."""
        with socket.new_context() as context:
            while True:
                data: bytes = await context.arecv()
                slot = Slot()
                self._take(data, slot)
                with trio.move_on_after(_ANSWER_S):
                    await slot.get()
                await _send(context, _encode_answer(slot.answer))

    def _take(self, data: bytes, slot: Slot) -> None:
        is_told = data.startswith(_TOLD)
        try:
            envelope: Envelope[Message] = codec.decode(  # type: ignore[assignment]  # narrower
                data[len(_TOLD) :] if is_told else data
            )
            self._deliver(envelope, None if is_told else slot.put)
        except (codec.CodecError, MailboxFullError) as error:
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
