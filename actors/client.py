"""The way to one other process: requests over nng, each on a context of its own."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import msgspec
import pynng
import trio

from envs_node.actors.context import Read, RequestContext, ResultT
from envs_node.actors.frames import ASKED_MAX, BUSY, NO_ANSWER, REFUSED, TOLD
from envs_node.actors.mailbox import ActorCrashedError, MailboxFullError
from envs_node.actors.sockets import dial, redial
from envs_node.actors.tls import Security
from envs_node.messages import codec
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.lifecycle import ActorBusy

TELLS_MAX = 256
_TELL_S = 10.0
"""How long a told message is tried; after that the receiver's node is taken for dead."""
_TELL_PAUSE_S = 0.02
"""How long a told message waits to be sent again when the mailbox was full."""


class NngClient:
    """A `Transport` to one node. Open it with `NngLinks`."""

    def __init__(self, url: str, nursery: trio.Nursery, security: Security | None = None) -> None:
        self.url = url
        self._nursery = nursery
        self._security = security
        self._socket = dial(url, security)
        self._is_closed = False
        self._free: list[RequestContext] = []
        self._calls = trio.Semaphore(ASKED_MAX)
        self._lines: dict[ActorName, deque[tuple[bytes, trio.Event]]] = {}
        """What is told to each actor and not yet acknowledged."""
        self._waiting = 0
        self._lost = 0

    async def ask(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Send a request after everything told to its receiver, and wait for its answer."""
        try:
            data = codec.encode(envelope)
        except codec.CodecError as error:  # whoever asks is ready for a failure, not for this
            raise ActorCrashedError(envelope.to, str(error)) from error
        if (line := self._lines.get(envelope.to)) is not None:
            await line[-1][1].wait()
        try:
            return await self._call(data, partial(_read_answer, envelope))
        except pynng.Closed as error:
            raise ActorCrashedError(envelope.to, "the way to it was closed here") from error

    def tell(self, envelope: Envelope[Message]) -> None:
        """Queue a message; what is told to one actor is sent in order."""
        data = TOLD + codec.encode(envelope)
        if self._waiting >= TELLS_MAX:
            raise MailboxFullError(envelope.to)
        if self._is_closed:
            self._lost += 1
            return
        line = self._lines.get(envelope.to)
        if line is None:
            line = self._lines[envelope.to] = deque()
            self._nursery.start_soon(self._send_line, envelope.to, line)
        self._waiting += 1
        line.append((data, trio.Event()))

    def statistics(self) -> dict[str, int]:
        """Told messages that wait, and those given up."""
        return {"waiting": self._waiting, "lost": self._lost}

    def renew(self) -> None:
        """Connect anew, with the certificate as it is now; what waits for an answer waits on."""
        redial(self._socket, self.url, self._security)

    def close(self) -> None:
        """Close the contexts, then the socket; whoever waits is told."""
        self._is_closed = True
        for context in self._free:
            context.close()
        self._free.clear()
        self._socket.close()

    async def _send_line(self, to: ActorName, line: deque[tuple[bytes, trio.Event]]) -> None:
        """Send what is told to one actor, one after another, until nothing is left."""
        try:
            while line:
                self._lost += not await self._send_told(line[0][0])
                self._leave(line)
        finally:
            del self._lines[to]
            self._lost += len(line)
            while line:
                self._leave(line)

    def _leave(self, line: deque[tuple[bytes, trio.Event]]) -> None:
        line.popleft()[1].set()
        self._waiting -= 1

    async def _send_told(self, data: bytes) -> bool:
        """Send one message until it lies in its mailbox; False when that took too long."""
        with trio.move_on_after(_TELL_S):
            while True:
                try:
                    if not await self._call(data, _is_busy):
                        return True
                except pynng.Closed:
                    return False
                await trio.sleep(_TELL_PAUSE_S)
        return False

    async def _call(self, data: bytes, read: Read[ResultT]) -> ResultT:
        """One request and its reply on a context of its own."""
        try:
            self._calls.acquire_nowait()
        except trio.WouldBlock:
            await self._calls.acquire()
        try:
            context = self._free.pop() if self._free else RequestContext(self._socket)
            is_whole = False
            try:
                result = await context.call(data, read)
                is_whole = not self._is_closed
            finally:
                if is_whole:
                    self._free.append(context)
                else:
                    context.close()
            return result
        finally:
            self._calls.release()


def _is_busy(reply: memoryview, _pipe: Any) -> bool:
    return reply == BUSY


def _read_answer(
    request: Envelope[Message], reply: memoryview, _pipe: Any
) -> Envelope[Message] | None:
    if reply == NO_ANSWER:
        return None
    if reply == BUSY:
        busy = ActorBusy(to=request.to)
        return msgspec.structs.replace(request, message=busy, cause=request.id)
    if reply[:1] == REFUSED:
        raise ActorCrashedError(request.to, str(reply[1:], "utf-8", "replace"))
    try:
        answer: Envelope[Message] = codec.decode(reply)  # type: ignore[assignment]  # narrower
    except codec.CodecError as error:
        raise ActorCrashedError(request.to, f"its answer was {error}") from error
    if answer.cause != request.id:
        raise ActorCrashedError(request.to, f"it answered {answer.cause}, not {request.id}")
    return answer
