"""Saves checkpoint after checkpoint, as a fit does, until it is killed: `FOLDER`."""

from __future__ import annotations

import shutil
import sys
from itertools import count
from pathlib import Path

from envs_node.fit.checkpoint import open_checkpoints, seal_checkpoint

FIT = "of-this-process"
NAMES = ("model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json")
PIECES = 64


def content(step: int) -> bytes:
    """What every file of this checkpoint holds, when it is whole."""
    return step.to_bytes(8, "big") * 512


def save_on(folder: Path) -> None:
    """In place and piece by piece, the oldest but two removed, and sealed at the end."""
    last = open_checkpoints(folder, FIT)
    first = 1 if last is None else int(last.name.rpartition("-")[2]) + 1
    for step in count(first):
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        for name in NAMES:
            with (checkpoint / name).open("wb") as file:
                for _ in range(PIECES):
                    file.write(content(step))
                    file.flush()
        shutil.rmtree(folder / f"checkpoint-{step - 2}", ignore_errors=True)
        seal_checkpoint(checkpoint)
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    save_on(Path(sys.argv[1]))
