"""A tiny pointer policy, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.make_base import make_base

TINY = BaseSettings(
    trajectories=24, epochs=2, validation_trajectories=4, width=32, layers=1, heads=2, buckets=256
)


@pytest.fixture(scope="session")
def tiny_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy of few parameters, hardly trained."""
    folder = tmp_path_factory.mktemp("policy") / "tiny"
    make_base(folder, TINY)
    return folder


@pytest.fixture(scope="session")
def tiny_settings() -> BaseSettings:
    """What `tiny_policy` is made by."""
    return TINY
