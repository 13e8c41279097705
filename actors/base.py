"""The actor: owns one thing, hears one message at a time, decides, answers."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from envs_node.messages.base import Envelope, Message

HeardT = TypeVar("HeardT", bound=Message)


class Actor(Generic[HeardT]):
    """Base of all actors. `hear` is called with one message at a time, in order of arrival.

    Before each `is_needless` and `hear` the loop puts the envelope of that message into
    `self.envelope`: its `time_ns` is the only clock a deciding actor reads, its `sender` says who
    asks.
    """

    hears: ClassVar[Any] = Message
    """What it hears, for `isinstance`: the types it names as `Actor[...]`. The rest is refused."""
    envelope: Envelope[Message]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Actor:
                (cls.hears,) = get_args(base)

    async def start(self) -> None:
        """Acquire what the actor owns. An error here is a crash; the supervisor decides."""

    def is_needless(self, message: HeardT) -> bool:
        """Whether hearing it would change nothing, say nothing and answer nothing.

        Then it is neither heard nor journalled: what comes all day long must not fill the disk.
        """
        return False

    async def hear(self, message: HeardT) -> Message | None:
        """Handle one message and return its answer."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Release what the actor owns. Also called after a crash; must not raise for that."""

    def statistics(self) -> dict[str, int | float]:
        """Insides worth watching."""
        return {}
