"""Trajectories of generated lessons."""

from __future__ import annotations

from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict
from envs_node.policy.models.pointer.lessons import play


def lesson_trajectory(
    seed: int,
    *,
    success_rate: float = 0.5,
    is_certified: bool = True,
    kind: str | None = None,
) -> Trajectory:
    """A generated lesson as a success; the same for the same arguments."""
    lesson = play(seed, kind)
    steps = tuple(
        Step(
            observation=state.observation,
            action=action,
            fingerprint=f"{type(action).__name__} {i}",
            text="",
            log_prob=-1.0,
            reached=state.observation.signature,
            changed=True,
        )
        for i, (state, action) in enumerate(lesson)
    )
    return Trajectory(
        id=f"trajectory-{seed}",
        task_id=TaskId(f"task-{seed}"),
        task_sha256="",
        template="lesson",
        split="train",
        instruction=lesson[0][0].instruction,
        branch_id=BranchId("b"),
        path=tuple(step.fingerprint for step in steps),
        steps=steps,
        verdict=Verdict(verdict="success", score=1.0),
        is_certified=is_certified,
        policy="tiny",
        success_rate=success_rate,
    )
