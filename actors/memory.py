"""The transport inside one process: envelopes are handed over as they are."""

from __future__ import annotations

import trio

from envs_node.actors.transport import Deliver
from envs_node.messages import codec
from envs_node.messages.base import Envelope, Message


class Slot:
    """Where one answer is put, once, and waited for."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.answer: Envelope[Message] | None = None

    def put(self, answer: Envelope[Message] | None) -> None:
        """Give the answer; a second one is dropped."""
        if not self._event.is_set():
            self.answer = answer
            self._event.set()

    async def get(self) -> Envelope[Message] | None:
        """Wait for the answer."""
        await self._event.wait()
        return self.answer


class MemoryLink:
    """A `Transport` to a post of the same process.

    With `is_copying` each envelope passes through the codec, as it would on its way to another
    process: what cannot travel then fails here too.
    """

    def __init__(self, deliver: Deliver, *, is_copying: bool = False) -> None:
        self._deliver = deliver
        self._is_copying = is_copying

    async def ask(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Deliver and wait for the answer, without a deadline."""
        slot = Slot()
        self._deliver(self._copy(envelope), slot.put)
        answer = await slot.get()
        return None if answer is None else self._copy(answer)

    def tell(self, envelope: Envelope[Message]) -> None:
        """Deliver without waiting; an answer is dropped."""
        self._deliver(self._copy(envelope), None)

    def _copy(self, envelope: Envelope[Message]) -> Envelope[Message]:
        if not self._is_copying:
            return envelope
        return codec.decode(codec.encode(envelope))  # type: ignore[return-value]  # narrower
