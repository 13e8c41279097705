"""Checkpoints: only whole ones are gone on from, wherever a process was killed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envs_node.fit.checkpoint import (
    FolderHeldError,
    hold_folder,
    open_checkpoints,
    publish_files,
    seal_checkpoint,
)
from tests.fit.checkpoint_process import FIT, NAMES, PIECES, content


def _save(folder: Path, step: int, *, is_sealed: bool = True) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    for name in NAMES:
        (checkpoint / name).write_bytes(content(step))
    if is_sealed:
        seal_checkpoint(checkpoint)
    return checkpoint


def test_the_last_sealed_checkpoint_is_gone_on_from_by_number_and_not_by_name(
    tmp_path: Path,
) -> None:
    open_checkpoints(tmp_path, FIT)
    for step in (8, 9, 10):
        _save(tmp_path, step)
    _save(tmp_path, 11, is_sealed=False)

    found = open_checkpoints(tmp_path, FIT)

    assert found == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-11").exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["gone", "short", "long"])
def test_a_sealed_checkpoint_that_lost_something_is_passed_over_and_removed(
    tmp_path: Path, name: str, how: str
) -> None:
    open_checkpoints(tmp_path, FIT)
    _save(tmp_path, 1)
    file = _save(tmp_path, 2) / name
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content(2)[:-1] if how == "short" else content(2) + b"x")

    assert open_checkpoints(tmp_path, FIT) == tmp_path / "checkpoint-1"
    assert not file.parent.exists()


def test_checkpoints_of_another_fit_are_removed(tmp_path: Path) -> None:
    open_checkpoints(tmp_path, FIT)
    _save(tmp_path, 1)

    assert open_checkpoints(tmp_path, "another") is None
    assert [file.name for file in tmp_path.iterdir()] == ["fit.txt"]


def test_of_eight_that_make_a_folder_at_once_one_holds_it(tmp_path: Path) -> None:
    ready, done = threading.Barrier(8), threading.Barrier(8)
    held: list[int] = []
    refused: list[str] = []

    def fit(number: int) -> None:
        ready.wait(timeout=10)
        try:
            with hold_folder(tmp_path / "deep" / "out"):
                held.append(number)
                done.wait(timeout=10)
        except FolderHeldError as error:
            refused.append(str(error))
            done.wait(timeout=10)

    threads = [threading.Thread(target=fit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert (len(held), len(refused)) == (1, 7)
    assert "another fit is under way in" in refused[0]
    with hold_folder(tmp_path / "deep" / "out"):
        pass


def test_finished_files_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "model").write_bytes(b"new")
    (tmp_path / "model").write_bytes(b"old")

    publish_files(made, tmp_path)

    assert (tmp_path / "model").read_bytes() == b"new"
    assert not made.exists()


@pytest.mark.slow
def test_a_process_killed_at_any_moment_of_a_save_leaves_a_good_checkpoint(
    tmp_path: Path,
) -> None:
    chance = random.Random(4)
    command = [sys.executable, "-m", "tests.fit.checkpoint_process", str(tmp_path)]
    at = 0
    for _ in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline()]
            time.sleep(chance.uniform(0, 0.05))  # the moment, not a wait for something
            process.kill()
            told += process.stdout.readlines()

        found = open_checkpoints(tmp_path, FIT)

        assert found is not None
        step = int(found.name.rpartition("-")[2])
        sealed = max(int(line) for line in told if line.endswith("\n"))
        assert sealed <= step <= sealed + 1
        assert step > at, "nothing that was sealed is done again"
        at = step
        for name in NAMES:
            assert (found / name).read_bytes() == content(step) * PIECES
