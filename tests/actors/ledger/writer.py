"""A process that admits trajectories until it is killed or the disk is full.

Run by the tests as `writer.py LEDGER TRAJECTORIES`: it prints the id of each that is on disk, and
`full` when there is no room.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import msgspec

from envs_node.actors.ledger.errors import LedgerFullError
from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.ledger import Trajectory


def _write(ledger: Path, source: Path) -> None:
    trajectories = msgspec.msgpack.decode(source.read_bytes(), type=list[Trajectory])
    with LedgerStore(ledger, free_bytes_min=0) as store:
        for number, trajectory in enumerate(trajectories):
            picture = number.to_bytes(4, "big") * 16_384
            try:
                store.store_blob(trajectory.id, hashlib.sha256(picture).hexdigest(), "png", picture)
                store.admit(trajectory)
            except LedgerFullError as error:
                sys.stdout.write(f"full {error.free_bytes}\n")
                return
            sys.stdout.write(f"{trajectory.id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _write(Path(sys.argv[1]), Path(sys.argv[2]))
