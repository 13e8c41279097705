"""A ledger survives the death of its writer and a full disk, with nothing kept in part."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.ledger import Trajectory

MakeTrajectory = Callable[..., Trajectory]
WRITER = Path(__file__).parent / "writer.py"


def _source(folder: Path, make_trajectory: MakeTrajectory, count: int) -> list[Trajectory]:
    made = [make_trajectory("click a", "type b", f"click {i}") for i in range(count)]
    (folder / "trajectories").write_bytes(msgspec.msgpack.encode(made))
    return made


def _assert_whole(ledger: Path, made: list[Trajectory], answered: list[str]) -> int:
    with LedgerStore(ledger) as store:
        kept = store.trajectories(certified_only=False)
        assert kept == tuple(made[: len(kept)])
        assert {*answered} <= {trajectory.id for trajectory in kept}
        assert store.stats().steps == 3 * len(kept)
        for trajectory in kept:
            picture = store.read_blob(trajectory.id)
            assert picture is not None
            assert len(picture) == 65_536
    return len(kept)


def _write_until_killed(folder: Path, lines: int) -> list[str]:
    command = [sys.executable, WRITER, folder / "ledger.sqlite", folder / "trajectories"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        answered = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        answered += writer.stdout.readlines()
    return [line.strip() for line in answered if line.endswith("\n")]


def test_a_killed_writer_leaves_no_half_trajectory(tmp_path, make_trajectory: MakeTrajectory):
    made = _source(tmp_path, make_trajectory, 500)
    chance = random.Random(20260622)
    kept = 0
    for _ in range(4):
        answered = _write_until_killed(tmp_path, kept + chance.randint(1, 12))
        kept = _assert_whole(tmp_path / "ledger.sqlite", made, answered)

    assert 0 < kept < len(made)


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_pauses_the_ledger_and_room_lets_it_go_on(
    tmp_path, make_trajectory: MakeTrajectory
):
    made = _source(tmp_path, make_trajectory, 60)
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").mkdir()
    script = """
        mount -t tmpfs -o size=2m tmpfs "$1/disk"
        "$2" "$3" "$1/disk/ledger.sqlite" "$1/trajectories"
        cp -r "$1/disk" "$1/out/full"
        mount -o remount,size=64m "$1/disk"
        "$2" "$3" "$1/disk/ledger.sqlite" "$1/trajectories"
        cp -r "$1/disk" "$1/out/roomy"
    """
    shell = ["sh", "-euc", script, "sh", tmp_path, sys.executable, WRITER]

    done = subprocess.run(
        ["unshare", "--mount", *shell], capture_output=True, text=True, check=True, timeout=60
    )

    first, _, second = done.stdout.partition("full ")
    answered = first.split()
    assert 0 < len(answered) < len(made)
    assert second.split()[1:] == [trajectory.id for trajectory in made]
    kept = _assert_whole(tmp_path / "out" / "full" / "ledger.sqlite", made, answered)
    assert kept <= len(answered) + 1
    assert _assert_whole(tmp_path / "out" / "roomy" / "ledger.sqlite", made, answered) == 60


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk takes root")
def test_a_ledger_on_a_read_only_disk_can_be_read(tmp_path, make_trajectory: MakeTrajectory):
    (tmp_path / "run").mkdir()
    with LedgerStore(tmp_path / "run" / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a"))
    reader = """
import pathlib, sys
from envs_node.actors.ledger.errors import LedgerReadOnlyError
from envs_node.actors.ledger.store import LedgerStore
path = pathlib.Path(sys.argv[1])
with LedgerStore(path, is_read_only=True) as store:
    sys.stdout.write(f"{len(store.trajectories(certified_only=True))} ")
try:
    LedgerStore(path)
except LedgerReadOnlyError as error:
    sys.stdout.write(str(error))
"""
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && "$2" -c "$3" "$4"'
    ledger = tmp_path / "run" / "ledger.sqlite"
    shell = ["sh", "-euc", script, "sh", ledger.parent, sys.executable, reader, ledger]

    done = subprocess.run(
        ["unshare", "--mount", *shell], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout == f"1 {ledger}: may not be written; check who owns it and how it is mounted"
    assert done.stderr == ""
