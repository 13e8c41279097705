"""Trajectories of generated lessons, and a tiny policy to fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from envs_node.messages.ledger import Trajectory
from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.make_base import make_base
from tests.fit.trajectories import lesson_trajectory

MakeTrajectory = Callable[..., Trajectory]


@pytest.fixture(scope="session")
def make_trajectory() -> MakeTrajectory:
    """A lesson as a certified success."""
    return lesson_trajectory


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
