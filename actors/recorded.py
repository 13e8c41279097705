"""Runs a fresh actor against its journal: the same decisions, or the first that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import trio

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.post import RefSource
from envs_node.actors.recorder import TIMEOUT, thin_nothing
from envs_node.messages.base import ActorName, EnvsError, Message
from envs_node.messages.journal import Entry, Kind
from envs_node.messages.lifecycle import ActorFailed

_LATER_FIELDS: Mapping[str, Mapping[str, object]] = {
    "Assign": {"start": None}, "Configure": {"branch": ""}, "Reset": {"prefix": None}
}  # fmt: skip
"""Fields of decisions that older journals lack, with their defaults."""
TURN_S = 10.0
"""How long a replayed answer waits for what should have been said or answered before it."""


class DecisionDiffers(EnvsError):
    """A fresh actor, told the same, said something else. Messages are None where none was said."""

    def __init__(
        self,
        actor: ActorName,
        index: int,
        recorded: Message | None,
        said: Message | None,
        place: int,
    ) -> None:
        super().__init__(
            f"decision {index} of {actor} differs: recorded {recorded!r}, now {said!r}"
        )
        self.actor = actor
        self.index = index
        self.place = place
        """Of the entry with the record, among the actor's entries, from 0."""
        self.recorded = recorded
        self.said = said


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a fresh actor has come by."""

    place: int
    """Among the entries of its actor, from 0."""
    entry: Entry
    said: Message | None = None
    """Of what the actor says and answers: what that is now."""
    is_equal: bool = True
    """False for the decision that came out otherwise; it is the last that is passed."""


Watch = Callable[[Passed], bool]
"""Hears of each entry as it is passed; True to go no further."""


class ReplayCount(msgspec.Struct, kw_only=True):
    """What a replay covered."""

    lives: int = 0
    heard: int = 0
    decisions: int = 0
    """Requests it said and answers it gave, each compared with the record."""
    damaged: int = 0
    """Entries whose checksum did not match."""


class Life(NamedTuple):
    """The entries of one actor from one start to the next."""

    first_place: int
    entries: list[Entry]


class RecordedPost:
    """Gives out references that compare what is said with the record of one life of an actor."""

    def __init__(
        self,
        actor: ActorName,
        life: Life,
        first_index: int,
        thin: Callable[[Message], Message],
        watch: Watch | None = None,
    ) -> None:
        self.actor = actor
        self.scope = trio.CancelScope()
        self.difference: DecisionDiffers | None = None
        self.decisions = 0
        self.is_stopped = False
        """Whether somebody who watches wants to see no more: nothing counts from there on."""
        self._first_index = first_index
        self._thin = thin
        self._watch = watch
        self._life = life.entries
        self._first_place = life.first_place
        self._unsaid: dict[int, Message | None] = {}
        self._place = 0
        self._is_cut = False
        self._last_said = -1
        self._crash = trio.CancelScope()
        self._does_crash = False
        self._beyond: list[Message] = []
        self._places = {(e.kind, e.index): n for n, e in enumerate(life.entries) if e.index >= 0}
        received = [entry for entry in life.entries if entry.kind == "received"]
        self._received = {entry.index: entry for entry in received}
        self._order = [entry.index for entry in received]
        self._turn = trio.Event()
        self._unknown = _unknown_fields(life.entries)

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
        for index, recorded in list(self._unsaid.items())[:1]:
            self._compare(self._places["said", index], recorded, None)

    def pass_by(self, place: int, said: Message | None = None) -> None:
        """Tell who watches that this entry of the life was come by, and end when told so."""
        if self._watch is None or self.is_stopped:
            return
        is_equal = self.difference is None
        entry, place_of_all = self._life[place], self._first_place + place
        if self._watch(Passed(place=place_of_all, entry=entry, said=said, is_equal=is_equal)):
            self.is_stopped = True
            self.scope.cancel()

    def compare_answer(self, place: int, answer: Message | None) -> None:
        """Compare what was heard in the end with what the actor answers now."""
        thinned = None if answer is None else self._thin(answer)
        self._compare(place, _message_of(self._life[place]), thinned)

    def _compare(self, place: int, recorded: Message | None, said: Message | None) -> None:
        """Count a decision, and end the replay when it differs."""
        if self.difference is not None or self.is_stopped:
            return
        if recorded != self._as_recorded(said):
            index, place_of_all = self._first_index + self.decisions, self._first_place + place
            self.difference = DecisionDiffers(self.actor, index, recorded, said, place_of_all)
            self.scope.cancel()
        self.decisions += 1
        self.pass_by(place, said)

    def _as_recorded(self, said: Message | None) -> Message | None:
        """What is said, without the fields that this record is too old for."""
        unknown = self._unknown.get(type(said).__name__)
        if said is None or not unknown:
            return said
        return msgspec.structs.replace(said, **unknown)

    def say(self, message: Message) -> int:
        """Compare what is said with the record, and return the index of its answer.

        Tasks of one actor speak in any order among each other, so the whole of what it said over
        one request is compared; that each gets its answers in order shows a change of order.
        """
        said = self._thin(message)
        for index, recorded in self._unsaid.items():
            if recorded == self._as_recorded(said):
                del self._unsaid[index]
                self._compare(self._places["said", index], recorded, said)
                return index
        if self._is_cut:
            self._beyond.append(said)
            return -1
        for index, recorded in list(self._unsaid.items())[:1]:
            self._compare(self._places["said", index], recorded, said)
            return -1
        self._compare(self._place - 1, None, said)
        return -1

    def expect_end(self) -> None:
        """Where the record is cut short: notice what was said in place of its last part."""
        for index, recorded in list(self._unsaid.items())[:1] if self._beyond else ():
            self._compare(self._places["said", index], recorded, self._beyond[0])

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
        self.pass_by(self._places["received", index])
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


def _unknown_fields(entries: Iterable[Entry]) -> dict[str, dict[str, object]]:
    """The later fields of each kind of decision that none in a life has: it is from before them."""
    unknown = {kind: dict(fields) for kind, fields in _LATER_FIELDS.items()}
    for entry in entries:
        message = _message_of(entry) if entry.kind in ("said", "answered") else None
        fields = unknown.get(type(message).__name__, {})
        for name in [name for name in fields if getattr(message, name) != fields[name]]:
            del fields[name]
    return unknown


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
    watch: Watch | None = None,
) -> ReplayCount:
    """Feed the journal of one actor to fresh ones, one for each time it was started.

    Args:
        entries: of a journal; those of other actors are passed over.
        make: builds the actor; its references come from the source it is given.
        thin: as the journal was thinned, so that alike is compared with alike.
        watch: hears of each entry as it is passed, and may end the replay there.

    Raises:
        DecisionDiffers: at the first thing it says, or leaves unsaid, against the record.
    """
    count = ReplayCount()
    for life in _lives(name, entries):
        post = RecordedPost(name, life, count.decisions, thin, watch)
        count.lives += 1
        count.damaged += sum(entry.is_damaged for entry in life.entries)
        with post.scope:
            await _relive(make(post), post, life.entries, count)
        if post.difference is not None:
            raise post.difference
        count.decisions += post.decisions
        if post.is_stopped:
            break
    return count


def _lives(name: ActorName, entries: Iterable[Entry]) -> Iterator[Life]:
    life = Life(0, [])
    for entry in entries:
        if entry.actor != name:
            continue
        if entry.kind == "started" and life.entries:
            yield life
            life = Life(life.first_place + len(life.entries), [])
        life.entries.append(entry)
    if life.entries:
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
                post.pass_by(place)
                await trio.lowlevel.checkpoint_if_cancelled()
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
                if has_crashed:
                    post.pass_by(place, _message_of(entry))
                else:
                    post.compare_answer(place, answer)
            elif entry.kind in ("started", "ended"):
                post.pass_by(place)
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
