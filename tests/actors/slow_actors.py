"""An actor that takes its time, for tests of how long others wait for it."""

from __future__ import annotations

import trio

from envs_node.actors.base import Actor
from envs_node.messages.base import Message
from envs_node.messages.search import Idle, Tick, WorkWanted


class SlowActor(Actor[WorkWanted | Tick]):
    """Answers with the count of what it heard.

    Args:
        hear_s: how long it takes over each message.
        stuck_s: how long it ignores that it is cancelled, over the first one.
    """

    def __init__(self, *, hear_s: float = 0.0, stuck_s: float = 0.0) -> None:
        self.heard: list[Message] = []
        self.is_stopped = False
        self._hear_s = hear_s
        self._stuck_s = stuck_s

    async def hear(self, message: WorkWanted | Tick) -> Message | None:
        """Take the time, answer."""
        self.heard.append(message)
        await trio.sleep(self._hear_s)
        if len(self.heard) == 1:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._stuck_s)
        return Idle(retry_ms=len(self.heard))

    async def stop(self) -> None:
        """Remember that."""
        self.is_stopped = True
