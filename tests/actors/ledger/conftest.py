"""Trajectories to keep."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from envs_node.messages.actions import Type
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.desktop import Element, Observation, Signature
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict

MakeTrajectory = Callable[..., Trajectory]


def _signature(name: str) -> Signature:
    frame = hashlib.md5(name.encode()).hexdigest()
    return Signature(frame=frame, tiles=b"", columns=1, windows=(), focus="", elements="", files="")


def _step(path: tuple[str, ...], position: int) -> Step:
    before, after = "/".join(path[:position]), "/".join(path[: position + 1])
    element = Element("text", before, "värde", 1, 2, 3, 4, ("focused",))
    return Step(
        observation=Observation(
            width=1280,
            height=720,
            elements=(element,),
            signature=_signature(before),
            time_ns=position,
            frame=b"",
        ),
        action=Type(text=path[position]),
        fingerprint=path[position],
        text="",
        log_prob=-1.5,
        reached=_signature(after),
        changed=True,
    )


def _make_trajectory(
    *path: str, task: str = "append-line-000", is_certified: bool = True
) -> Trajectory:
    task_sha256 = hashlib.sha256(task.encode()).hexdigest()
    return Trajectory(
        id=hashlib.sha256("\0".join((task, *path)).encode()).hexdigest(),
        task_id=TaskId(task),
        task_sha256=task_sha256,
        template=task[:-4],
        split="train",
        instruction="Append a line.",
        branch_id=BranchId("b-1"),
        path=path,
        steps=tuple(_step(path, position) for position in range(len(path))),
        verdict=Verdict(verdict="success", score=1.0),
        is_certified=is_certified,
        policy="built-in",
        success_rate=0.5,
    )


@pytest.fixture
def make_trajectory() -> MakeTrajectory:
    """Makes the trajectory of a path."""
    return _make_trajectory
