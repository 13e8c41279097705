"""From trajectories to examples: each shared step once, the last turn only."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from envs_node.messages.actions import Action
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.propose import State


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One action to learn in one state. The actions before it are seen, never trained on."""

    task_id: TaskId
    path: tuple[str, ...]
    """Fingerprints since the start, the example's own last: its name within the task."""
    state: State
    action: Action
    text: str
    success_rate: float
    """Of the task, among its judged leaves."""


class ExampleSet(msgspec.Struct, frozen=True, kw_only=True):
    """The examples of a fit, and how many there were before sharing."""

    trajectories: int
    before_sharing: int
    examples: tuple[Example, ...]


def collect_examples(trajectories: Iterable[Trajectory], *, certified_only: bool) -> ExampleSet:
    """Take every step of every trajectory, a step that several share once.

    Two steps are one when the same task's same actions, by fingerprint, led to the same action.
    The order of the trajectories does not matter.
    """
    used = sorted(
        (one for one in trajectories if one.is_certified or not certified_only),
        key=lambda one: (one.task_id, one.id),
    )
    examples: dict[tuple[TaskId, tuple[str, ...]], Example] = {}
    for trajectory in used:
        for example in _steps(trajectory):
            examples.setdefault((example.task_id, example.path), example)
    return ExampleSet(
        trajectories=len(used),
        before_sharing=sum(len(one.steps) for one in used),
        examples=tuple(examples.values()),
    )


def _steps(trajectory: Trajectory) -> Iterable[Example]:
    path: tuple[str, ...] = ()
    history: tuple[Action, ...] = ()
    for step in trajectory.steps:
        path = (*path, step.fingerprint)
        yield Example(
            task_id=trajectory.task_id,
            path=path,
            state=State(
                instruction=trajectory.instruction,
                observation=step.observation,
                history=history,
            ),
            action=step.action,
            text=step.text,
            success_rate=trajectory.success_rate,
        )
        history = (*history, step.action)
