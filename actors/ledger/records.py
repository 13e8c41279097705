"""How a trajectory becomes rows, and comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step

Row = dict[str, Any]

_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Trajectory)
_step_decoder = msgspec.msgpack.Decoder(Step)


def path_digest(fingerprints: Iterable[str]) -> str:
    """Digest of a canonical path; no two different paths are written the same way."""
    return hashlib.sha256(_encoder.encode(tuple(fingerprints))).hexdigest()


def trajectory_row(trajectory: Trajectory, admitted_ns: int) -> Row:
    """The row of `trajectories`."""
    head = msgspec.structs.replace(trajectory, steps=())
    return {
        "id": trajectory.id,
        "task_id": trajectory.task_id,
        "task_sha256": trajectory.task_sha256,
        "path_sha256": path_digest(trajectory.path),
        "template": trajectory.template,
        "split": trajectory.split,
        "is_certified": trajectory.is_certified,
        "admitted_ns": admitted_ns,
        "step_count": len(trajectory.steps),
        "head": _encoder.encode(head),
    }


def step_rows(trajectory: Trajectory) -> list[Row]:
    """The rows of `steps`, in order. Pixels are left out: they are kept as blobs."""
    rows: list[Row] = []
    taken: list[str] = []
    for position, step in enumerate(trajectory.steps):
        taken.append(step.fingerprint)
        bare = msgspec.structs.replace(
            step, observation=msgspec.structs.replace(step.observation, frame=b"")
        )
        rows.append(
            {
                "trajectory": trajectory.id,
                "position": position,
                "shared_key": path_digest((trajectory.task_sha256, *taken)),
                "frame": step.observation.signature.frame,
                "data": _encoder.encode(bare),
            }
        )
    return rows


def trajectory_of(head: bytes, steps: Iterable[bytes], success_rate: float | None) -> Trajectory:
    """The trajectory of these rows, with the task's latest success rate where one is known.

    Raises:
        msgspec.DecodeError: a column is damaged.
    """
    trajectory = _head_decoder.decode(head)
    return msgspec.structs.replace(
        trajectory,
        steps=tuple(_step_decoder.decode(step) for step in steps),
        success_rate=trajectory.success_rate if success_rate is None else success_rate,
    )
