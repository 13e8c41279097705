"""The post of a process: finds the receiver of each envelope, and brings its answer back."""

from __future__ import annotations

import itertools
import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec
import trio

from envs_node.actors.mailbox import (
    ActorCrashedError,
    AskTimeoutError,
    Delivery,
    Mailbox,
    MailboxFullError,
    Ref,
)
from envs_node.actors.memory import MemoryLink
from envs_node.actors.recorder import TIMEOUT, Recorder
from envs_node.actors.transport import Reply, Transport
from envs_node.messages.base import ActorName, Envelope, Message, MessageId, RunId
from envs_node.messages.lifecycle import ActorBusy, ActorFailed

Resolver: TypeAlias = Callable[[ActorName], Transport | None]
_BUSY_S = (0.005, 0.5)
"""How long the first wait at a full mailbox is, and the longest; each is twice the one before."""


def steady_clock() -> Callable[[], int]:
    """A clock that shows the wall time of its making and the time that has gone since.

    Setting the wall clock does not move it; nor does it run while the machine sleeps.
    """
    started_ns = time.time_ns() - time.monotonic_ns()
    return lambda: started_ns + time.monotonic_ns()


class RefSource(Protocol):
    """Where an actor gets its references: a `Post`, or a `RecordedPost` in a replay."""

    def ref(self, to: ActorName, *, sender: ActorName) -> Ref:
        """A reference to an actor, bound to the one who speaks."""


class Post:
    """Knows the mailboxes of this process and the ways to others.

    A name is looked for among the mailboxes here, then the routes (the longest prefix wins), then
    the resolver. Whoever asks a name that is nowhere gets `ActorCrashedError` at once.

    Args:
        run: goes into every envelope.
        clock_ns: the clock of the envelopes, ns since 1970; a `steady_clock` unless given.
        stamp: makes this process's message ids unique; 64 random bits unless given.
        recorder: journals what actors say; None keeps no journal.
        resolve: finds the way to names without a route.
        chance: spreads the waits at full mailboxes; drawn from the stamp unless given.
    """

    def __init__(
        self,
        run: RunId,
        *,
        clock_ns: Callable[[], int] | None = None,
        stamp: str = "",
        recorder: Recorder | None = None,
        resolve: Resolver | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.run = run
        self.recorder = recorder
        self._clock_ns = clock_ns or steady_clock()
        self._ahead_ns = 0
        self._stamp = stamp or secrets.token_hex(8)
        self._resolve = resolve
        self._chance = chance or random.Random(self._stamp)
        self._sequence = itertools.count()
        self._mailboxes: dict[ActorName, Mailbox] = {}
        self._routes: dict[str, Transport] = {}
        self._here = MemoryLink(self.deliver)
        self._undelivered = 0
        self._busy = 0

    def ref(self, to: ActorName, *, sender: ActorName) -> Ref:
        """A reference to an actor wherever it lives, bound to the one who speaks."""
        return _PostRef(self, to, sender)

    def register(self, mailbox: Mailbox) -> None:
        """Deliver to this mailbox what is sent to its name.

        Raises:
            ValueError: the name is taken.
        """
        if mailbox.name in self._mailboxes:
            raise ValueError(f"an actor named {mailbox.name} is registered already")
        self._mailboxes[mailbox.name] = mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Deliver to this mailbox no longer; nothing happens when another has its name."""
        if self._mailboxes.get(mailbox.name) is mailbox:
            del self._mailboxes[mailbox.name]

    def evict(self, name: ActorName, *, reason: str = "it was given up") -> bool:
        """Take its name from an actor that is stuck, so that a replacement can have it.

        Whoever waits for an answer of it gets `ActorCrashedError` at once. Should it wake, it
        hears nothing more, and what it answers goes nowhere.

        Returns:
            Whether an actor had the name.
        """
        mailbox = self._mailboxes.pop(name, None)
        if mailbox is None:
            return False
        mailbox.close(ActorFailed(to=name, reason=reason))
        return True

    def add_route(self, prefix: str, transport: Transport) -> None:
        """Send to names that start with this prefix by this transport; "" takes all others."""
        self._routes[prefix] = transport

    def go_on_from(self, time_ns: int) -> None:
        """Never stamp an earlier time than this: a journal that goes on has reached it.

        The wall clock may have been set back while nobody ran.
        """
        self._ahead_ns += max(time_ns - self._now_ns(), 0)

    def names(self) -> tuple[ActorName, ...]:
        """The actors of this process, sorted."""
        return tuple(sorted(self._mailboxes))

    def statistics(self) -> dict[str, int]:
        """Mailboxes, routes, what was told to nobody, and waits at full mailboxes."""
        return {
            "actors": len(self._mailboxes),
            "routes": len(self._routes),
            "undelivered": self._undelivered,
            "busy": self._busy,
        }

    def waiting(self) -> tuple[tuple[ActorName, int], ...]:
        """How many messages wait, of the mailboxes where some do, by name."""
        counts = ((name, box.statistics()["waiting"]) for name, box in self._mailboxes.items())
        return tuple(sorted((name, count) for name, count in counts if count))

    def deliver(self, envelope: Envelope[Message], reply: Reply | None) -> None:
        """Put an envelope that came from anywhere into the mailbox of its receiver.

        It is stamped with the time of this post: no other clock counts for whoever hears it.

        Raises:
            MailboxFullError: it was told, not asked, and there is no room.
        """
        envelope = msgspec.structs.replace(envelope, time_ns=self._now_ns())

        def answer(message: Message | None) -> None:
            if reply is not None:
                reply(None if message is None else self._answer(envelope, message))

        mailbox = self._mailboxes.get(envelope.to)
        if mailbox is None:
            self._undelivered += reply is None
            answer(ActorFailed(to=envelope.to, reason="nobody of that name is here"))
            return
        try:
            mailbox.put_nowait(
                Delivery(envelope=envelope, answer=answer), is_repeated=reply is not None
            )
        except MailboxFullError:
            if reply is None:
                raise
            answer(ActorBusy(to=envelope.to))

    def envelope(self, message: Message, *, sender: ActorName, to: ActorName) -> Envelope[Message]:
        """Address a request."""
        return self._envelope(message, sender, to, None)

    async def ask(self, envelope: Envelope[Message], *, timeout_s: float) -> Envelope[Message]:
        """Send a request and wait for its answer; see `Ref.ask`.

        While the receiver has no room for it, the sender waits and sends it again.
        """
        answer: Envelope[Message] | None = None
        with trio.move_on_after(timeout_s) as scope:
            answer = await self._way(envelope.to).ask(envelope)
            if answer is not None and isinstance(answer.message, ActorBusy):
                answer = await self._ask_again(envelope)
        name = type(envelope.message).__name__
        if scope.cancelled_caught:
            raise AskTimeoutError(envelope.to, name, timeout_s)
        if answer is None:
            raise ActorCrashedError(envelope.to, f"it does not answer {name}")
        if isinstance(answer.message, ActorFailed):
            raise ActorCrashedError(envelope.to, answer.message.reason)
        return answer

    def tell(self, envelope: Envelope[Message]) -> None:
        """Send without waiting; see `Ref.tell`."""
        self._way(envelope.to).tell(envelope)

    async def _ask_again(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Send the same request until there is room for it."""
        wait_s, longest_s = _BUSY_S
        while True:
            self._busy += 1
            await trio.sleep(wait_s * self._chance.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, longest_s)
            answer = await self._way(envelope.to).ask(envelope)
            if answer is None or not isinstance(answer.message, ActorBusy):
                return answer

    def _now_ns(self) -> int:
        return self._clock_ns() + self._ahead_ns

    def _way(self, to: ActorName) -> Transport:
        if to in self._mailboxes:
            return self._here
        for length in range(len(to), -1, -1):
            if (route := self._routes.get(to[:length])) is not None:
                return route
        found = self._resolve(to) if self._resolve is not None else None
        return found or self._here

    def _answer(self, request: Envelope[Message], message: Message) -> Envelope[Message]:
        return self._envelope(message, request.to, request.sender, request.id)

    def _envelope(
        self, message: Message, sender: ActorName, to: ActorName, cause: MessageId | None
    ) -> Envelope[Message]:
        sequence = next(self._sequence)
        return Envelope(
            id=MessageId(f"{self._stamp}-{sequence}"),
            sender=sender,
            to=to,
            run=self.run,
            sequence=sequence,
            time_ns=self._now_ns(),
            message=message,
            cause=cause,
        )


class _PostRef:
    """A reference into a post. Journals what its sender says where the recorder wants it."""

    def __init__(self, post: Post, to: ActorName, sender: ActorName) -> None:
        self._post = post
        self._to = to
        self._sender = sender

    @property
    def name(self) -> ActorName:
        """The actor's name."""
        return self._to

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """See `Ref.ask`."""
        envelope = self._post.envelope(message, sender=self._sender, to=self._to)
        recorder = self._post.recorder
        if recorder is None or not recorder.wants(self._sender):
            return (await self._post.ask(envelope, timeout_s=timeout_s)).message
        index = await recorder.asked(envelope)
        try:
            answer = await self._post.ask(envelope, timeout_s=timeout_s)
        except AskTimeoutError:
            await recorder.missed(self._sender, index, TIMEOUT)
            raise
        except ActorCrashedError as error:
            await recorder.missed(self._sender, index, error.reason)
            raise
        await recorder.received(self._sender, index, answer)
        return answer.message

    def tell(self, message: Message) -> None:
        """See `Ref.tell`."""
        envelope = self._post.envelope(message, sender=self._sender, to=self._to)
        recorder = self._post.recorder
        if recorder is not None and recorder.wants(self._sender):
            recorder.told(envelope)
        self._post.tell(envelope)
