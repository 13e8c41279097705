"""Writes what actors hear and say into the journal, thinned of what is too heavy to keep."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from envs_node.actors.room import Room
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.journal import JournalWriter

TIMEOUT = "timeout"
"""How the journal says that an answer did not come in time."""


def thin_nothing(message: Message) -> Message:
    """Keep messages as they are."""
    return message


def every_actor(_name: ActorName) -> bool:
    """Journal everybody."""
    return True


class Recorder:
    """The journal of the actors of one process.

    Args:
        writer: where entries go.
        wants: which actors are journalled, by name.
        thin: takes heavy parts (the pixels of a frame) out of a message before it is kept.
        is_idle: requests that change nothing and decide nothing; they and their answers are left
            out. An actor must say nothing over them.
        room: waits until the journal's disk has room.
    """

    def __init__(
        self,
        writer: JournalWriter,
        *,
        wants: Callable[[ActorName], bool] = every_actor,
        thin: Callable[[Message], Message] = thin_nothing,
        is_idle: Callable[[Message], bool] = lambda _: False,
        room: Room | None = None,
    ) -> None:
        self.wants = wants
        self._is_idle = is_idle
        self._writer = writer
        self._thin = thin
        self._room = room
        self._said: dict[ActorName, int] = {}

    async def room(self, message: Message | None = None) -> None:
        """Wait until there is room to record what comes of this message, or of a start."""
        if self._room is not None and (message is None or not self._is_idle(message)):
            await self._room.wait()

    def started(self, actor: ActorName) -> None:
        """The actor starts anew: what it says is counted from 0."""
        self._said[actor] = 0
        self._writer.append(actor, "started")

    def heard(self, envelope: Envelope[Message]) -> None:
        """An actor is about to handle this request."""
        if self._is_idle(envelope.message):
            return
        self._writer.append(envelope.to, "heard", self._thinned(envelope))

    def answered(self, request: Envelope[Message], answer: Message | None) -> None:
        """The actor answered that request so, or not at all."""
        if self._is_idle(request.message):
            return
        kept = None if answer is None else self._thinned(_as_answer(request, answer))
        self._writer.append(request.to, "answered", kept)

    def said(self, envelope: Envelope[Message]) -> int:
        """An actor says this. Returns the index that its answer goes by."""
        index = self._said.get(envelope.sender, 0)
        self._said[envelope.sender] = index + 1
        self._writer.append(envelope.sender, "said", self._thinned(envelope), index=index)
        return index

    def received(self, actor: ActorName, index: int, answer: Envelope[Message]) -> None:
        """The actor got this answer to what it said."""
        self._writer.append(actor, "received", self._thinned(answer), index=index)

    def missed(self, actor: ActorName, index: int, error: str) -> None:
        """The actor got no answer to what it asked, and why."""
        self._writer.append(actor, "received", index=index, error=error)

    def ended(self, envelope: Envelope[Message]) -> None:
        """The sender has ended with this: nothing that it heard needs to be heard again."""
        self._writer.append(envelope.sender, "ended", envelope)

    def _thinned(self, envelope: Envelope[Message]) -> Envelope[Message]:
        message = self._thin(envelope.message)
        if message is envelope.message:
            return envelope
        return msgspec.structs.replace(envelope, message=message)


def _as_answer(request: Envelope[Message], answer: Message) -> Envelope[Message]:
    return msgspec.structs.replace(
        request,
        sender=request.to,
        to=request.sender,
        cause=request.id,
        message=answer,
    )
