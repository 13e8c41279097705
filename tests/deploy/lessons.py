"""A ledger of generated lessons, and a tiny policy to fit on it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict
from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.lessons import play
from envs_node.policy.models.pointer.make_base import make_base

TINY = BaseSettings(
    trajectories=20, epochs=1, validation_trajectories=2, width=32, layers=1, heads=2, buckets=256
)


def write_tiny_policy(folder: Path) -> None:
    """A policy that knows next to nothing."""
    make_base(folder, TINY)


def write_ledger(file: Path, *, trajectories: int) -> None:
    """Certified successes, as a run would have kept them."""
    with LedgerStore(file) as store:
        for seed in range(trajectories):
            store.admit(_trajectory(seed))


def _trajectory(seed: int) -> Trajectory:
    lesson = play(seed)
    steps = tuple(
        Step(
            observation=state.observation,
            action=action,
            fingerprint=f"{type(action).__name__} {number}",
            text="",
            log_prob=-1.0,
            reached=state.observation.signature,
            changed=True,
        )
        for number, (state, action) in enumerate(lesson)
    )
    return Trajectory(
        id=hashlib.sha256(str(seed).encode()).hexdigest(),
        task_id=TaskId(f"task-{seed}"),
        task_sha256="",
        template="lesson",
        split="train",
        instruction=lesson[0][0].instruction,
        branch_id=BranchId("b"),
        path=tuple(step.fingerprint for step in steps),
        steps=steps,
        verdict=Verdict(verdict="success", score=1.0),
        is_certified=True,
        policy="tiny",
        success_rate=seed % 4 / 4,
    )
