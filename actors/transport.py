"""What carries envelopes between actors: one face for memory and for nng.

What one actor says to another arrives in order: messages that are told, and a request after what
was told, or asked and answered, before it. Requests that are under way at once come in the order
of their sending in one process; between processes they have none among themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from envs_node.messages.base import Envelope, Message

Reply: TypeAlias = Callable[[Envelope[Message] | None], None]
"""Takes the answer to a request, or None when there is none. Never waits."""

Deliver: TypeAlias = Callable[[Envelope[Message], Reply | None], None]
"""Puts an envelope into the mailbox of its receiver. Without a reply it was told, not asked, and
a full mailbox raises `MailboxFullError`; with one, a refusal is an answer too."""


class Transport(Protocol):
    """A way to the actors of one process: memory or nng, which actors cannot tell apart."""

    async def ask(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Carry a request and wait for its answer. The caller brings the deadline."""

    def tell(self, envelope: Envelope[Message]) -> None:
        """Carry without waiting. Raises `MailboxFullError` when it takes no more."""
