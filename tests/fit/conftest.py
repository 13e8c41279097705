"""Trajectories of generated lessons, and a tiny policy to fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict
from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.lessons import play
from envs_node.policy.models.pointer.make_base import make_base

MakeTrajectory = Callable[..., Trajectory]


@pytest.fixture(scope="session")
def make_trajectory() -> MakeTrajectory:
    """A lesson as a certified success."""

    def make(
        seed: int,
        *,
        success_rate: float = 0.5,
        is_certified: bool = True,
        kind: str | None = None,
    ) -> Trajectory:
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

    return make


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny, hardly trained policy."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    settings = BaseSettings(
        trajectories=40, epochs=3, validation_trajectories=2, width=32, layers=1, heads=2,
        buckets=256,
    )  # fmt: skip
    make_base(folder, settings)
    return folder
