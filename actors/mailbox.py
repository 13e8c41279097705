"""Mailboxes, and references to them: the one face that memory and nng share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from envs_node.messages.base import ActorName, Envelope, EnvsError, Message

MAILBOX_LENGTH = 256


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
    """A bounded queue of deliveries, read by one actor."""

    def __init__(self, name: ActorName, length: int = MAILBOX_LENGTH) -> None:
        self.name = name
        self._send, self._receive = trio.open_memory_channel[Delivery](length)

    def put_nowait(self, delivery: Delivery) -> None:
        """Add a delivery. Raises `MailboxFullError` when there is no room."""
        try:
            self._send.send_nowait(delivery)
        except trio.WouldBlock:
            raise MailboxFullError(self.name) from None

    async def get(self) -> Delivery:
        """Wait for the next delivery."""
        return await self._receive.receive()

    def empty_nowait(self) -> list[Delivery]:
        """Take everything that waits."""
        taken = []
        while True:
            try:
                taken.append(self._receive.receive_nowait())
            except trio.WouldBlock:
                return taken

    def statistics(self) -> dict[str, int]:
        """Messages waiting."""
        return {"waiting": self._receive.statistics().current_buffer_used}
