"""Runs a fresh actor against its journal: the same decisions, or the first that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import trio

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.post import RefSource
from envs_node.actors.recorder import TIMEOUT, thin_nothing
from envs_node.messages.base import ActorName, EnvsError, Message
from envs_node.messages.journal import Entry, Kind
from envs_node.messages.lifecycle import ActorFailed

TURN_S = 10.0
"""How long a replayed answer waits for what should have been said or answered before it."""


class DecisionDiffers(EnvsError):
    """A fresh actor, told the same, said something else. Messages are None where none was said."""

    def __init__(
        self, actor: ActorName, index: int, recorded: Message | None, said: Message | None
    ) -> None:
        super().__init__(
            f"decision {index} of {actor} differs: recorded {recorded!r}, now {said!r}"
        )
        self.actor = actor
        self.index = index
        self.recorded = recorded
        self.said = said


class ReplayCount(msgspec.Struct, kw_only=True):
    """What a replay covered."""

    lives: int = 0
    heard: int = 0
    decisions: int = 0
    """Requests it said and answers it gave, each compared with the record."""
    damaged: int = 0
    """Entries whose checksum did not match."""


class RecordedPost:
    """Gives out references that compare what is said with the record of one life of an actor."""

    def __init__(
        self,
        actor: ActorName,
        life: list[Entry],
        first_index: int,
        thin: Callable[[Message], Message],
    ) -> None:
        self.actor = actor
        self.scope = trio.CancelScope()
        self.difference: DecisionDiffers | None = None
        self.decisions = 0
        self._first_index = first_index
        self._thin = thin
        self._life = life
        self._unsaid: dict[int, Message | None] = {}
        self._place = 0
        self._is_cut = False
        self._last_said = -1
        self._crash = trio.CancelScope()
        self._does_crash = False
        self._beyond: list[Message] = []
        received = [entry for entry in life if entry.kind == "received"]
        self._received = {entry.index: entry for entry in received}
        self._order = [entry.index for entry in received]
        self._turn = trio.Event()

    def ref(self, to: ActorName, *, sender: ActorName) -> Ref:
        """A reference that answers from the record."""
        assert sender == self.actor, f"a replay of {self.actor} speaks as {sender}"
        return _RecordedRef(self, to)

    def expect_until(self, kind: Kind) -> None:
        """From here to the next entry of this kind is what the actor may say now."""
        for place in range(self._place, len(self._life)):
            entry = self._life[place]
            self._place = place + 1
            if entry.kind == kind:
                return
            if entry.kind == "said":
                self._unsaid[entry.index] = _message_of(entry)
                self._last_said = entry.index
        self._is_cut = True

    def crash_scope(self, *, does_crash: bool) -> trio.CancelScope:
        """What the actor hears next under. It ends where the actor crashed over a lost answer."""
        self._crash, self._does_crash = trio.CancelScope(), does_crash
        return self._crash

    def expect_nothing(self) -> None:
        """Notice what should have been said by now."""
        for recorded in list(self._unsaid.values())[:1]:
            self.compare(recorded, None)

    def compare(self, recorded: Message | None, said: Message | None) -> None:
        """Count a decision, and end the replay when it differs."""
        if recorded != said and self.difference is None:
            index = self._first_index + self.decisions
            self.difference = DecisionDiffers(self.actor, index, recorded, said)
            self.scope.cancel()
        self.decisions += 1

    def compare_answer(self, recorded: Message | None, answer: Message | None) -> None:
        """Compare what was heard in the end with what the actor answers now."""
        self.compare(recorded, None if answer is None else self._thin(answer))

    def say(self, message: Message) -> int:
        """Compare what is said with the record, and return the index of its answer.

        Tasks of one actor speak in any order among each other, so the whole of what it said over
        one request is compared; that each gets its answers in order shows a change of order.
        """
        said = self._thin(message)
        for index, recorded in self._unsaid.items():
            if recorded == said:
                del self._unsaid[index]
                self.decisions += 1
                return index
        if self._is_cut:
            self._beyond.append(said)
        else:
            self.compare(next(iter(self._unsaid.values()), None), said)
        return -1

    def expect_end(self) -> None:
        """Where the record is cut short: notice what was said in place of its last part."""
        if self._unsaid and self._beyond:
            self.compare(next(iter(self._unsaid.values())), self._beyond[0])

    async def answer_to(self, index: int, to: ActorName, name: str, timeout_s: float) -> Message:
        """The recorded answer, given out in the recorded order."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._received.get(index)
        if entry is None:
            await self._no_answer(index, timeout_s)
            raise AskTimeoutError(to, name, timeout_s)
        with trio.move_on_after(TURN_S) as waiting:
            while self._order[0] != index:
                await self._turn.wait()
        if waiting.cancelled_caught:
            self.expect_nothing()
            await trio.lowlevel.checkpoint_if_cancelled()
        self._order.remove(index)
        self._turn.set()
        self._turn = trio.Event()
        if entry.error == TIMEOUT:
            raise AskTimeoutError(to, name, timeout_s)
        if entry.envelope is None:
            raise ActorCrashedError(to, entry.error)
        return entry.envelope.message

    async def _no_answer(self, index: int, timeout_s: float) -> None:
        """Wait where the record has no answer: the actor gave up asking, or the record ends."""
        if index >= 0 and not self._is_cut:
            if self._does_crash and index == self._last_said:
                self._crash.cancel()  # the answer came, but there was no room to record it
            await trio.sleep(timeout_s)
            return
        if self._unsaid and self.difference is None:
            await trio.sleep(TURN_S)
        self.expect_end()
        self.scope.cancel()
        await trio.sleep_forever()


class _RecordedRef:
    """A reference into the record."""

    def __init__(self, post: RecordedPost, to: ActorName) -> None:
        self._post = post
        self._to = to

    @property
    def name(self) -> ActorName:
        """The actor's name."""
        return self._to

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """Compare the request, and give the recorded answer."""
        index = self._post.say(message)
        return await self._post.answer_to(index, self._to, type(message).__name__, timeout_s)

    def tell(self, message: Message) -> None:
        """Compare the message."""
        self._post.say(message)


async def replay_actor(
    name: ActorName,
    entries: Iterable[Entry],
    make: Callable[[RefSource], Actor[Any]],
    *,
    thin: Callable[[Message], Message] = thin_nothing,
) -> ReplayCount:
    """Feed the journal of one actor to fresh ones, one for each time it was started.

    Args:
        entries: of a journal; those of other actors are passed over.
        make: builds the actor; its references come from the source it is given.
        thin: as the journal was thinned, so that alike is compared with alike.

    Raises:
        DecisionDiffers: at the first thing it says, or leaves unsaid, against the record.
    """
    count = ReplayCount()
    for life in _lives(name, entries):
        post = RecordedPost(name, life, count.decisions, thin)
        count.lives += 1
        count.damaged += sum(entry.is_damaged for entry in life)
        with post.scope:
            await _relive(make(post), post, life, count)
        if post.difference is not None:
            raise post.difference
        count.decisions += post.decisions
    return count


def _lives(name: ActorName, entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    life: list[Entry] = []
    for entry in entries:
        if entry.actor != name:
            continue
        if entry.kind == "started" and life:
            yield life
            life = []
        life.append(entry)
    if life:
        yield life


async def _relive(
    actor: Actor[Any], post: RecordedPost, life: list[Entry], count: ReplayCount
) -> None:
    """One life: start, hear all that was heard, stop."""
    answer: Message | None = None
    has_crashed = False
    post.expect_until("heard")
    await actor.start()
    try:
        for place, entry in enumerate(life):
            if entry.kind == "heard" and entry.envelope is not None:
                post.expect_until("answered")
                count.heard += 1
                actor.envelope = entry.envelope  # type: ignore[assignment]  # narrower
                does_crash = _is_crash(life, place)
                try:
                    with post.crash_scope(does_crash=does_crash) as crashing:
                        answer = await actor.hear(entry.envelope.message)
                except EnvsError:
                    if not does_crash:
                        raise
                    has_crashed = True
                else:
                    has_crashed = crashing.cancelled_caught
            elif entry.kind == "answered":
                post.expect_nothing()
                if not has_crashed:
                    post.compare_answer(_message_of(entry), answer)
            await trio.lowlevel.checkpoint_if_cancelled()
        post.expect_end()
    finally:
        with trio.CancelScope(shield=True):
            await actor.stop()


def _is_crash(life: list[Entry], place: int) -> bool:
    """Whether what was heard at this place made the actor crash."""
    for entry in life[place + 1 :]:
        if entry.kind == "answered":
            return isinstance(_message_of(entry), ActorFailed)
    return False


def _message_of(entry: Entry) -> Message | None:
    return None if entry.envelope is None else entry.envelope.message
