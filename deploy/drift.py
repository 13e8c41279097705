"""How far a branch that is driven again comes from the record of it, state by state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from envs_node.deploy.strip import StripRow, pixels_differ
from envs_node.messages.actions import Fail, Finish
from envs_node.messages.desktop import Signature
from envs_node.messages.search import LeafReached, Step
from envs_node.policy.compare import compare, count_differing

Pictures = Mapping[str, bytes]
"""PNG by frame."""
_PARTS = ("windows", "focus", "elements", "files")


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """How one state compares with the record of it."""

    step: int
    """The action that led there, from 1; 0 is the start."""
    action: str = ""
    outcome: Literal["equal", "masked", "diverged", "unrecorded", "not reached"]
    """Of the comparison that every replay makes, where there is something to compare."""
    difference: str = ""
    pixels: float | None = None
    """Share of the pixels that differ, 0 to 1; None without both pictures."""
    tiles: int = 0
    """Tiles of the picture that differ, by the signatures."""
    tiles_total: int = 0
    parts: tuple[str, ...] = ()
    """What else differs, of windows, focus, elements and files."""

    def words(self) -> str:
        """All of it but the outcome, in a line."""
        if self.outcome in ("unrecorded", "not reached"):
            return self.difference or "nothing to compare"
        pixels = "no pictures" if self.pixels is None else f"{self.pixels:.3%} of the pixels"
        others = f"{', '.join(self.parts)} differ" if self.parts else f"{', '.join(_PARTS)} equal"
        why = f" ({self.difference})" if self.difference else ""
        return f"{pixels}, {self.tiles} of {self.tiles_total} tiles; {others}{why}"


def states_of(leaf: LeafReached) -> list[Signature | None]:
    """The start, and where each step led; None for a start that nobody wrote down."""
    start = leaf.steps[0].observation.signature if leaf.steps else None
    return [start, *(step.reached for step in leaf.steps)]


def measure(
    recorded: LeafReached, now: LeafReached, then_seen: Pictures, now_seen: Pictures
) -> tuple[Drift, ...]:
    """Compare the start and each step of a branch with the record.

    Args:
        then_seen: pictures of the record, as far as they were kept.
        now_seen: pictures of this time.
    """
    reached = states_of(now)
    drifts = []
    for number, then in enumerate(states_of(recorded)):
        here = reached[number] if number < len(reached) else None
        action = _action_words(recorded.steps[number - 1]) if number else ""
        if then is None or here is None:
            drift = Drift(
                step=number,
                action=action,
                outcome="unrecorded" if then is None else "not reached",
                difference="" if then is None else now.detail,
            )
        else:
            drift = _compared(number, action, then, here)
            if then.frame in then_seen and here.frame in now_seen:
                share = pixels_differ(then_seen[then.frame], now_seen[here.frame])
                drift = msgspec.structs.replace(drift, pixels=share)
        drifts.append(drift)
    return tuple(drifts)


def is_equal(recorded: LeafReached, now: LeafReached, drifts: tuple[Drift, ...]) -> bool:
    """Whether it came by equal states, but for a few tiles, to an equal verdict."""
    are_equal = all(drift.outcome in ("equal", "masked", "unrecorded") for drift in drifts)
    if recorded.verdict is None:
        return are_equal
    return are_equal and now.verdict is not None and now.verdict.verdict == recorded.verdict.verdict


def strip_rows(
    recorded: LeafReached,
    now: LeafReached,
    drifts: tuple[Drift, ...],
    then_seen: Pictures,
    now_seen: Pictures,
) -> tuple[StripRow, ...]:
    """What is drawn of it."""
    reached = states_of(now)
    rows = []
    for drift, then in zip(drifts, states_of(recorded), strict=True):
        here = reached[drift.step] if drift.step < len(reached) else None
        step = recorded.steps[drift.step - 1] if drift.step else None
        rows.append(
            StripRow(
                title=f"{drift.step}. {drift.action}" if step else "start",
                outcome=drift.outcome,
                drift=drift.words(),
                action=step.action if step else None,
                then=then_seen.get(then.frame) if then else None,
                now=now_seen.get(here.frame) if here else None,
                lack="this picture was not kept" if then else "the start was not recorded",
            )
        )
    return tuple(rows)


def _compared(number: int, action: str, then: Signature, here: Signature) -> Drift:
    outcome, difference = compare(then, here)
    tiles = total = 0
    if len(then.tiles) == len(here.tiles):
        tiles, total = count_differing(then.tiles, here.tiles)
    return Drift(
        step=number,
        action=action,
        outcome=outcome,
        difference=difference,
        tiles=tiles,
        tiles_total=total,
        parts=tuple(name for name in _PARTS if getattr(then, name) != getattr(here, name)),
    )


def _action_words(step: Step) -> str:
    is_end = isinstance(step.action, Finish | Fail)
    return f"{step.fingerprint} (nothing is performed)" if is_end else step.fingerprint
