"""Goes through a journal entry by entry: what was heard, what was said then and now."""

from __future__ import annotations

import contextlib
from typing import Literal

import msgspec

from envs_node.actors.recorded import DecisionDiffers, Passed
from envs_node.deploy.insides import Insides
from envs_node.deploy.replay import RecordedRun, ReplayError, first_difference
from envs_node.messages.base import ActorName, Message
from envs_node.policy.fingerprint import fingerprint

_SHOWN_FIELDS = ("branch_id", "lease", "kind", "step", "reason", "state", "is_over")


class ReplayStep(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the journal, and what came of it now."""

    sequence: int
    """Position in the journal, from 0."""
    actor: str
    kind: str
    message: str
    """What it holds, in a line; empty for none."""
    outcome: Literal["", "equal", "differs"]
    """Of what the actor says and answers; empty for what comes from others."""
    now: str = ""
    """Where it differs: what is said now."""
    where: str = ""
    """Where it differs: the first field, and both values."""
    is_damaged: bool = False
    """The entry's checksum does not match what it holds."""
    changes: tuple[str, ...] = ()
    """What the actor knows now that it did not before this entry."""


class Stepped(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay went, and what its actor knew there."""

    run: str
    actor: str
    until: int
    """The last entry that was passed."""
    steps: tuple[ReplayStep, ...]
    state: tuple[str, ...]
    """In lines of text."""

    @property
    def is_sound(self) -> bool:
        """Whether no decision came out otherwise, and no entry is damaged."""
        return not any(step.outcome == "differs" or step.is_damaged for step in self.steps)


async def step_through(run: RecordedRun, actor: str, until: int | None = None) -> Stepped:
    """Replay one actor up to an entry of the journal, or to its end.

    Args:
        actor: its name; empty for the one whose entry is `until`.
        until: position in the journal. That of another actor's entry stops where this one stood.

    Raises:
        ReplayError: there is no such actor or entry, or the actor came later.
    """
    name = _actor_at(run, actor, until)
    sequences = run.histories[name].sequences
    places = [place for place, sequence in enumerate(sequences) if sequence <= _end(run, until)]
    if not places:
        raise ReplayError(f"{name} comes into the journal at entry {sequences[0]}, after {until}")
    walk = _Walk(run.insides(name), sequences, last=places[-1])
    with contextlib.suppress(DecisionDiffers):  # it is the last step, and says so
        await run.relive(name, walk.passed, walk.insides)
    return Stepped(
        run=run.folder.run,
        actor=name,
        until=walk.steps[-1].sequence if walk.steps else sequences[0],
        steps=tuple(sorted(walk.steps, key=lambda step: step.sequence)),
        state=tuple(walk.insides.lines()),
    )


class _Walk:
    """Notes each entry that is passed."""

    def __init__(self, insides: Insides, sequences: list[int], *, last: int) -> None:
        self.insides = insides
        self.steps: list[ReplayStep] = []
        self._sequences = sequences
        self._last = last
        self._facts: dict[str, str] = {}

    def passed(self, passed: Passed) -> bool:
        """Note one; True at the last."""
        self.insides.passed(passed)
        facts = self.insides.facts()
        self.steps.append(self._step(passed, _changes(self._facts, facts)))
        self._facts = facts
        return passed.place >= self._last

    def _step(self, passed: Passed, changes: tuple[str, ...]) -> ReplayStep:
        entry = passed.entry
        recorded = None if entry.envelope is None else entry.envelope.message
        is_own = entry.kind in ("said", "answered")
        differs = is_own and not passed.is_equal
        return ReplayStep(
            sequence=self._sequences[passed.place],
            actor=entry.actor,
            kind=entry.kind,
            message=entry.error or _in_words(recorded),
            outcome=("differs" if differs else "equal") if is_own else "",
            now=_in_words(passed.said) or "nothing" if differs else "",
            where=first_difference(recorded, passed.said) if differs else "",
            is_damaged=entry.is_damaged,
            changes=changes,
        )


def _actor_at(run: RecordedRun, actor: str, until: int | None) -> ActorName:
    end = run.length - 1
    if until is not None and not 0 <= until <= end:
        raise ReplayError(f"no entry {until} in {run.folder.journal}: they are 0 to {end}")
    names = run.names(actor)
    if len(names) == 1:
        return names[0]
    if until is None:
        known = ", ".join(sorted(names))
        raise ReplayError(f"name one of the actors, or an entry of one: {known}")
    return next(name for name in names if until in run.histories[name].sequences)


def _end(run: RecordedRun, until: int | None) -> int:
    return run.length if until is None else until


def _changes(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    names = [*before, *(name for name in after if name not in before)]
    return tuple(
        f"{name}: {before.get(name, '-')} -> {after.get(name, '-')}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _in_words(message: Message | None) -> str:
    """A message by its name and what tells it from others of its kind."""
    if message is None:
        return ""
    name = type(message).__name__
    message = getattr(message, "assign", message)  # what is told of a `Drive` is in there
    fields = [(field, getattr(message, field, None)) for field in _SHOWN_FIELDS]
    told = [f"{field} {value}" for field, value in fields if value is not None and value != ""]
    action = getattr(message, "action", None)
    if action is not None:
        told.append(fingerprint(action))
    verdict = getattr(message, "verdict", None)
    if verdict is not None:
        told.append(f"verdict {verdict.verdict}")
    return f"{name} {', '.join(told)}".rstrip()
