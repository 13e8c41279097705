"""Mailboxes, and references to them: the one face that memory and nng share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

import msgspec
import trio

from envs_node.messages.base import ActorName, Envelope, EnvsError, Message, MessageId

MAILBOX_LENGTH = 256
_GIVEN_UP_S = 2.5
"""A request that found no room and did not come again for so long is taken for given up. Its
sender's post repeats it several times in that time."""
_SENDERS_MAX = 1024
"""Senders whose order is kept while there is no room."""


class AskTimeoutError(EnvsError):
    """No answer came within the deadline. The request may have been done or not: ask again."""

    def __init__(self, to: str, message: str, timeout_s: float) -> None:
        super().__init__(f"{to} did not answer {message} within {timeout_s:g} s")
        self.to = to


class MailboxFullError(EnvsError):
    """The receiver is behind: its bounded mailbox took no more."""

    def __init__(self, to: str) -> None:
        super().__init__(f"the mailbox of {to} is full ({MAILBOX_LENGTH} messages)")
        self.to = to


class ActorCrashedError(EnvsError):
    """The actor that was asked crashed over the request, or nobody of that name is there."""

    def __init__(self, to: str, reason: str) -> None:
        super().__init__(f"{to} failed: {reason}")
        self.to = to
        self.reason = reason


class Ref(Protocol):
    """A reference to an actor, wherever it lives."""

    @property
    def name(self) -> ActorName:
        """The actor's name."""

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """Send a request and wait for its answer.

        Raises:
            AskTimeoutError: nothing came in time.
            ActorCrashedError: the actor died over it, or is not there.
        """

    def tell(self, message: Message) -> None:
        """Send without waiting. Raises `MailboxFullError` when the mailbox takes no more."""


class Delivery(msgspec.Struct, kw_only=True):
    """An envelope in a mailbox, and the way its answer goes back."""

    envelope: Envelope[Message]
    answer: Callable[[Message | None], None]
    """Called at most once, from the trio thread, with the answer; None when there is none."""


class Mailbox:
    """A bounded queue of deliveries, read by one actor.

    What one sender sends arrives in order: when a request finds no room, what its sender sends
    after it finds none either, until the request has come again or its sender has given it up.
    """

    def __init__(self, name: ActorName, length: int = MAILBOX_LENGTH) -> None:
        self.name = name
        self.current: Delivery | None = None
        """What the actor is handling."""
        self.is_closed = False
        self._send, self._receive = trio.open_memory_channel[Delivery](length)
        self._turned_away: dict[ActorName, dict[MessageId, float]] = {}
        """Requests that found no room, in order, and when they last came."""

    def put_nowait(self, delivery: Delivery, *, is_repeated: bool = False) -> None:
        """Add a delivery.

        Args:
            is_repeated: its sender sends it again when there is no room.

        Raises:
            MailboxFullError: there is no room.
        """
        if self._turned_away and not self._is_next(delivery.envelope):
            self._turn_away(delivery, is_repeated)
        try:
            self._send.send_nowait(delivery)
        except trio.WouldBlock:
            self._turn_away(delivery, is_repeated)
        if self._turned_away:
            self._let_in(delivery.envelope)

    async def get(self) -> Delivery:
        """Wait for the next delivery, which is the current one until it is answered.

        Raises:
            trio.EndOfChannel: the mailbox was closed.
        """
        self.current = await self._receive.receive()
        return self.current

    def answer(self, answer: Message | None) -> None:
        """Answer the current delivery."""
        delivery, self.current = self.current, None
        if delivery is not None:
            delivery.answer(answer)

    def close(self, answer: Message) -> None:
        """Answer so to everybody who waits; nothing is taken any more."""
        self.is_closed = True
        self.answer(answer)
        self._send.close()
        while True:
            try:
                delivery = self._receive.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return
            delivery.answer(answer)

    def statistics(self) -> dict[str, int]:
        """Messages waiting here, and requests waiting with their senders."""
        waiting = self._receive.statistics().current_buffer_used
        return {"waiting": waiting, "turned_away": sum(map(len, self._turned_away.values()))}

    def _is_next(self, envelope: Envelope[Message]) -> bool:
        """Whether nothing of this sender has to come before. Forgets what was given up."""
        mine = self._turned_away.get(envelope.sender, {})
        given_up = trio.current_time() - _GIVEN_UP_S
        while mine and (first := next(iter(mine))) != envelope.id:
            if mine[first] > given_up:
                return False
            del mine[first]
        return True

    def _let_in(self, envelope: Envelope[Message]) -> None:
        mine = self._turned_away.get(envelope.sender)
        if mine is not None:
            mine.pop(envelope.id, None)
            if not mine:
                del self._turned_away[envelope.sender]

    def _turn_away(self, delivery: Delivery, is_repeated: bool) -> NoReturn:
        if is_repeated:
            envelope = delivery.envelope
            if len(self._turned_away) >= _SENDERS_MAX:
                self._turned_away.pop(next(iter(self._turned_away)))
            mine = self._turned_away.setdefault(envelope.sender, {})
            mine[envelope.id] = trio.current_time()
        raise MailboxFullError(self.name)
