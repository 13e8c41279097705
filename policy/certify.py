"""From a success to what a fresh desktop must reproduce, and from that to a trajectory."""

from __future__ import annotations

import hashlib

from envs_node.messages.actions import Fail, Finish
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import LeafReached, PrefixStep, Step
from envs_node.messages.tasks import Task
from envs_node.policy.fingerprint import FingerprintMode, canonical_path, fingerprint


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
