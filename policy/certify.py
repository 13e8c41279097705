"""From a success to what a fresh desktop must reproduce, and from that to a trajectory."""

from __future__ import annotations

import hashlib

import msgspec

from envs_node.messages.actions import Fail, Finish
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import LeafReached, PrefixStep, Step
from envs_node.messages.tasks import Task
from envs_node.policy.fingerprint import FingerprintMode, canonical_path, fingerprint


class Successes:
    """The successes of one task on their way to the ledger."""

    def __init__(self, task: Task, mode: FingerprintMode) -> None:
        self._task = task
        self._mode = mode
        self._paths: set[tuple[str, ...]] = set()
        self._admissions: list[Trajectory] = []
        self._distinct: set[str] = set()

    def first_try(self, leaf: LeafReached) -> tuple[PrefixStep, ...] | None:
        """What to replay to certify a success; None when its path was found before."""
        trimmed = certify_prefixes(leaf)[0]
        path = tuple(step.fingerprint for step in trimmed)
        if path in self._paths:
            return None
        self._paths.add(path)
        return trimmed

    def second_try(
        self, source: LeafReached, tried: tuple[PrefixStep, ...]
    ) -> tuple[PrefixStep, ...] | None:
        """What to replay after this failed; None when that was everything."""
        full = certify_prefixes(source)[-1]
        return None if len(tried) == len(full) else full

    def admit(
        self, leaf: LeafReached, *, policy: str, success_rate: float, is_certified: bool
    ) -> None:
        """Let a success go to the ledger. A certification asks no policy: the one that found it."""
        self._admissions.append(
            to_trajectory(
                self._task,
                msgspec.structs.replace(leaf, policy=policy),
                self._mode,
                success_rate=success_rate,
                is_certified=is_certified,
            )
        )

    @property
    def has_any(self) -> bool:
        """Whether `take` would give any."""
        return bool(self._admissions)

    def take(self) -> tuple[Trajectory, ...]:
        """Those of which the ledger has not heard yet."""
        taken, self._admissions = tuple(self._admissions), []
        return taken

    def kept(self, trajectory: Trajectory) -> int:
        """The ledger holds a certified one. Returns how many distinct ones it holds now."""
        self._distinct.add(trajectory.id)
        return len(self._distinct)


def certify_prefixes(leaf: LeafReached) -> tuple[tuple[PrefixStep, ...], ...]:
    """What to replay, best first: without the steps that changed nothing, then everything.

    The states of the short path are not compared: with a step left out they may rightly differ.
    """
    full = tuple(_prefix_step(step, is_compared=True) for step in leaf.steps)
    kept = [s for s in leaf.steps if s.changed or isinstance(s.action, Finish | Fail)]
    if len(kept) == len(full):
        return (full,)
    return (tuple(_prefix_step(step, is_compared=False) for step in kept), full)


def to_trajectory(
    task: Task,
    leaf: LeafReached,
    mode: FingerprintMode,
    *,
    success_rate: float,
    is_certified: bool,
) -> Trajectory:
    """Make the ledger's record of a success."""
    assert leaf.verdict is not None, "only what was judged becomes a trajectory"
    names = tuple(fingerprint(step.action, mode) for step in leaf.steps)
    path = canonical_path(names, tuple(step.changed for step in leaf.steps))
    return Trajectory(
        id=trajectory_id(task.sha256, path),
        task_id=task.id,
        task_sha256=task.sha256,
        template=task.template,
        split=task.split,
        instruction=task.instruction,
        branch_id=leaf.branch_id,
        path=path,
        steps=leaf.steps,
        verdict=leaf.verdict,
        is_certified=is_certified,
        policy=leaf.policy,
        success_rate=success_rate,
    )


def trajectory_id(task_sha256: str, path: tuple[str, ...]) -> str:
    """Equal canonical paths of one task have equal ids, in every run."""
    digest = hashlib.sha256(task_sha256.encode())
    for name in path:
        digest.update(b"\0" + name.encode())
    return digest.hexdigest()[:32]


def _prefix_step(step: Step, *, is_compared: bool) -> PrefixStep:
    return PrefixStep(
        action=step.action,
        fingerprint=step.fingerprint,
        reached=step.reached if is_compared else None,
        text=step.text,
        log_prob=step.log_prob,
    )
