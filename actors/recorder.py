"""Writes what actors hear and say into the journal, thinned of what is too heavy to keep."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from envs_node.actors.room import Room
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.journal import JournalFullError, JournalWriter, Kind
from envs_node.messages.lifecycle import ActorFailed

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
        room: of the journal's disk. While it has none, actors wait before they hear and ask, and
            what is under way is written as soon as there is some.
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

    async def started(self, actor: ActorName) -> None:
        """The actor starts anew: what it says is counted from 0."""
        await self._wait_for_room()
        self._said[actor] = 0
        await self._append(actor, "started")

    async def heard(self, envelope: Envelope[Message]) -> None:
        """An actor is about to handle this request: it waits while there is no room."""
        if self._is_idle(envelope.message):
            return
        await self._wait_for_room()
        await self._append(envelope.to, "heard", self._thinned(envelope))

    async def answered(self, request: Envelope[Message], answer: Message | None) -> None:
        """The actor answered that request so, or not at all."""
        if self._is_idle(request.message):
            return
        kept = None if answer is None else self._thinned(_as_answer(request, answer))
        await self._append(request.to, "answered", kept)

    def crashed(self, request: Envelope[Message], failed: ActorFailed) -> None:
        """The actor crashed over that request. Nobody is left to wait for room."""
        if not self._is_idle(request.message):
            self._writer.append(request.to, "answered", _as_answer(request, failed))

    async def asked(self, envelope: Envelope[Message]) -> int:
        """An actor is about to ask this: it waits while there is no room.

        Returns:
            The index that the answer goes by.
        """
        await self._wait_for_room()
        index = self._next_index(envelope.sender)
        await self._append(envelope.sender, "said", self._thinned(envelope), index=index)
        return index

    def told(self, envelope: Envelope[Message]) -> None:
        """An actor tells this, and does not wait."""
        index = self._next_index(envelope.sender)
        self._writer.append(envelope.sender, "said", self._thinned(envelope), index=index)

    async def received(self, actor: ActorName, index: int, answer: Envelope[Message]) -> None:
        """The actor got this answer to what it asked."""
        await self._append(actor, "received", self._thinned(answer), index=index)

    async def missed(self, actor: ActorName, index: int, error: str) -> None:
        """The actor got no answer to what it asked, and why."""
        await self._append(actor, "received", index=index, error=error)

    async def ended(self, envelope: Envelope[Message]) -> None:
        """The sender has ended with this: nothing that it heard needs to be heard again."""
        await self._append(envelope.sender, "ended", envelope)

    async def _wait_for_room(self) -> None:
        if self._room is not None:
            await self._room.wait()

    async def _append(
        self,
        actor: ActorName,
        kind: Kind,
        envelope: Envelope[Message] | None = None,
        *,
        index: int = -1,
        error: str = "",
    ) -> None:
        """Append, as soon as the disk takes it: a full disk is nobody's crash."""
        while True:
            try:
                self._writer.append(actor, kind, envelope, index=index, error=error)
            except JournalFullError as full:
                if self._room is None:
                    raise
                await self._room.wait_after(str(full))
            else:
                return

    def _next_index(self, actor: ActorName) -> int:
        index = self._said.get(actor, 0)
        self._said[actor] = index + 1
        return index

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
