"""A ledger of generated lessons, and a tiny policy to fit on it."""

from __future__ import annotations

from pathlib import Path

from envs_node.actors.ledger.store import LedgerStore
from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.make_base import make_base
from tests.fit.trajectories import lesson_trajectory

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
            store.admit(lesson_trajectory(seed, success_rate=seed % 4 / 4))
