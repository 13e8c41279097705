"""Answers the requests that other processes send to a socket."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, NoReturn

import msgspec
import pynng
import trio

from envs_node.actors.context import ReplyContext
from envs_node.actors.frames import BUSY, NO_ANSWER, REFUSED, TOLD
from envs_node.actors.mailbox import MailboxFullError
from envs_node.actors.refusals import Refusals
from envs_node.actors.tls import Peers
from envs_node.actors.transport import Deliver
from envs_node.messages import codec
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.lifecycle import ActorFailed

_ANSWER_S = 900.0
"""How long a context is kept for an answer that does not come."""
_REASON_BYTES_MAX = 500


class _Reply:
    """Where the answer to one request goes: on its way at once, or nowhere when it is too late."""

    __slots__ = ("_context", "_event", "is_given", "pipe", "since_s", "to")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._event: trio.Event | None = None
        self.is_given = False
        self.to = ActorName("")
        self.pipe: Any = None
        """By which the request came."""
        self.since_s = 0.0

    def put(self, answer: Envelope[Message] | None) -> None:
        """Send the answer; a second one is dropped."""
        self.put_bytes(NO_ANSWER if answer is None else _encode_answer(answer))

    def put_bytes(self, data: bytes) -> None:
        """Send an answer that is no envelope."""
        if self.is_given:
            return
        self.is_given = True
        self._context.answer(data)
        if self._event is not None:
            self._event.set()

    def drop(self) -> None:
        """The context is gone or goes on to other requests: answer no more."""
        self.is_given = True

    async def wait(self) -> None:
        """Wait until the answer was given."""
        if not self.is_given:
            self._event = trio.Event()
            await self._event.wait()


class Server:
    """Answers the requests of a socket, one a context."""

    def __init__(
        self,
        deliver: Deliver,
        socket: pynng.Rep0,
        actor_max: int,
        peers: Peers | None,
        refusals: Refusals,
        *,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._answer_s = answer_s
        self._deliver = deliver
        self._socket = socket
        self._actor_max = max(actor_max, 1)
        self._peers = peers
        self._refusals = refusals
        self._waiting: Counter[ActorName] = Counter()
        """Requests that wait for each actor's answer, of those for whom some do."""
        self._replies: set[_Reply] = set()
        """Where those answers go."""

    async def answer_all(self) -> NoReturn:
        """Receive, deliver, answer, on a context of its own."""
        context = ReplyContext(self._socket)
        try:
            while True:
                await self._answer_one(context)
        finally:
            context.close()

    async def _answer_one(self, context: ReplyContext) -> None:
        reply = _Reply(context)
        try:
            await context.receive(partial(self._take, reply))
            await reply.wait()
        finally:
            reply.drop()
            self._forget(reply)
        if not await context.wait_sent():
            host = _host(reply.pipe, self._socket)
            self._refusals.note(host, "it does not take its answers")

    async def give_up(self) -> NoReturn:
        """Answer nothing where no answer came for too long, so that the context is free again."""
        while True:
            await trio.sleep(self._answer_s / 30)
            late_s = trio.current_time() - self._answer_s
            for reply in [reply for reply in self._replies if reply.since_s < late_s]:
                reply.put(None)

    def _note(self, reply: _Reply, to: ActorName) -> None:
        reply.to = to
        reply.since_s = trio.current_time()
        self._replies.add(reply)
        self._waiting[to] += 1

    def _forget(self, reply: _Reply) -> None:
        if reply in self._replies:
            self._replies.remove(reply)
            self._waiting[reply.to] -= 1
            if not self._waiting[reply.to]:
                del self._waiting[reply.to]

    def _take(self, reply: _Reply, data: memoryview, pipe: Any) -> None:
        """Deliver one request, from the trio thread and without waiting."""
        reply.pipe = pipe
        is_told = data[:1] == TOLD
        peer = pynng.Pipe(pipe, self._socket) if self._peers is not None else None
        if self._peers is not None and peer is not None and not _may_come(self._peers, peer, data):
            reply.put(None)
            return
        try:
            envelope: Envelope[Message] = codec.decode(  # type: ignore[assignment]  # narrower
                data[len(TOLD) :] if is_told else data
            )
        except codec.CodecError as error:
            if not (self._peers and peer and self._peers.reject_garbage(peer)):
                self._refusals.note(_host(pipe, self._socket), "it is no message", str(error))
            reply.put_bytes(REFUSED + str(error).encode()[:_REASON_BYTES_MAX])
            return
        refused = self._peers.refusal(peer, envelope) if self._peers and peer else None
        if refused is not None:
            reply.put(refused)
        elif is_told:
            self._take_told(reply, envelope)
        elif self._waiting and self._waiting[envelope.to] >= self._actor_max:
            reply.put_bytes(BUSY)
        else:
            self._note(reply, envelope.to)
            self._deliver(envelope, reply.put)

    def _take_told(self, reply: _Reply, envelope: Envelope[Message]) -> None:
        try:
            self._deliver(envelope, None)
        except MailboxFullError:
            reply.put_bytes(BUSY)
        else:
            reply.put(None)


def _may_come(peers: Peers, peer: pynng.Pipe, data: memoryview) -> bool:
    return peers.is_here(peer.id) and not peers.is_too_long(peer, len(data))


def _host(pipe: Any, socket: pynng.Rep0) -> str:
    """Who is at the other end: without the port, which is another one at each connection."""
    try:
        return str(pynng.Pipe(pipe, socket).remote_address).rpartition(":")[0]
    except pynng.NNGException:  # it is gone
        return "unknown"


def _encode_answer(answer: Envelope[Message]) -> bytes:
    try:
        return codec.encode(answer)
    except codec.CodecError as error:
        failed = ActorFailed(to=answer.sender, reason=str(error))
        return codec.encode(msgspec.structs.replace(answer, message=failed))
