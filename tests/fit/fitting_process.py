"""A fit in a process of its own that dies at a step: `TRAJECTORIES BASE OUT LOSSES DIES_AT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from envs_node.fit.sft import fit_policy
from envs_node.messages.fit import FitSettings
from envs_node.messages.ledger import Trajectory

SETTINGS = FitSettings(batch_size=1, checkpoint_steps=10)


def fit_and_die(packed: Path, base: Path, out: Path, losses: Path, dies_at: int) -> None:
    """Write down the loss of each step; at the one named, be killed in the midst of things."""
    trajectories = msgspec.msgpack.decode(packed.read_bytes(), type=tuple[Trajectory, ...])
    with losses.open("a", buffering=1) as file:

        def note(step: int, _steps: int, loss: float) -> None:
            file.write(f"{step} {loss!r}\n")
            if step == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

        fit_policy(trajectories, base, out, SETTINGS, note)


if __name__ == "__main__":
    fit_and_die(*map(Path, sys.argv[1:5]), int(sys.argv[5]))
