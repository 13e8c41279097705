"""A run's folder holds all of the run, and is never written over."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from envs_node import __version__
from envs_node.deploy.config import Config
from envs_node.deploy.run_folder import RunFolder, RunFolderError, find_unfinished, write_json
from envs_node.deploy.tasks.bundle import bundled_tasks

TASKS = bundled_tasks("train", 1)[:2]


def _create(path: Path) -> RunFolder:
    return RunFolder.create(
        path, config=Config(), tasks=TASKS, policy="p@1", checker="c 1", kind="search"
    )


def test_a_new_run_has_its_tasks_and_its_manifest(tmp_path: Path) -> None:
    folder = _create(tmp_path / "runs" / "r-1")

    assert folder.run == "r-1"
    opened = RunFolder.open(folder.path)
    assert opened.load_tasks() == TASKS
    manifest = opened.manifest()
    assert (manifest.run, manifest.version, manifest.kind) == ("r-1", __version__, "search")
    assert manifest.tasks == tuple(task.id for task in TASKS)
    assert manifest.config == Config()
    assert (folder.tasks / f"{TASKS[0].id}.json").read_bytes() == TASKS[0].json


def test_a_manifest_names_the_versions_of_what_it_ran_with(tmp_path: Path) -> None:
    libraries = _create(tmp_path / "r-1").manifest().libraries

    assert {"torch", "trio", "msgspec", "sqlalchemy"} <= set(libraries)
    assert all(libraries.values())


def test_a_folder_with_anything_in_it_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "r-1").mkdir()
    (tmp_path / "r-1" / "thesis.txt").write_text("mine")

    with pytest.raises(RunFolderError, match=r"r-1 exists; choose another with --run.*--resume"):
        _create(tmp_path / "r-1")

    assert [path.name for path in (tmp_path / "r-1").iterdir()] == ["thesis.txt"]


def test_a_run_is_not_made_twice(tmp_path: Path) -> None:
    _create(tmp_path / "r-1")

    with pytest.raises(RunFolderError, match="exists"):
        _create(tmp_path / "r-1")


def test_a_run_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    whole = _create(tmp_path / "whole").path
    half = tmp_path / "half"
    (half / "logs").mkdir(parents=True)
    (half / "unfinished").touch()
    (half / "tasks").mkdir()
    (half / "tasks.msgpack").write_bytes(b"\x92")

    folder = _create(half)

    assert folder.load_tasks() == TASKS
    assert {path.name for path in half.iterdir()} == {path.name for path in whole.iterdir()}
    with pytest.raises(RunFolderError, match="exists"):
        _create(half)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "r-1").write_text("a file")

    with pytest.raises(RunFolderError, match="r-1 exists"):
        _create(tmp_path / "r-1")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")

    with pytest.raises(RunFolderError, match=r"cannot make .*r-1: Not a directory"):
        _create(tmp_path / "file" / "r-1")


def test_logs_may_be_there_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "r-1" / "logs").mkdir(parents=True)

    assert _create(tmp_path / "r-1").manifest().run == "r-1"


def test_what_is_no_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"is no run: it has no manifest\.json"):
        RunFolder.open(tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    folder = _create(tmp_path / "r-1")
    manifest = folder.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])

    with pytest.raises(RunFolderError, match=r"manifest\.json is damaged"):
        RunFolder.open(folder.path).manifest()


def test_a_damaged_run_keeps_no_other_from_going_on(tmp_path: Path) -> None:
    left = _create(tmp_path / "r-1")
    (_create(tmp_path / "r-2").path / "manifest.json").write_bytes(b"")

    with capture_logs() as logs:
        found = find_unfinished(tmp_path, has_policy=True)

    assert found is not None
    assert found.path == left.path
    (log,) = logs
    assert (log["event"], log["path"]) == ("run.skipped", str(tmp_path / "r-2"))
    assert "is damaged" in log["why"]


def test_damaged_tasks_are_named(tmp_path: Path) -> None:
    folder = _create(tmp_path / "r-1")
    packed = folder.path / "tasks.msgpack"
    packed.write_bytes(packed.read_bytes()[:100])

    with pytest.raises(RunFolderError, match=r"tasks\.msgpack is damaged"):
        folder.load_tasks()


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"path": Path("/x"), "ä": 1})
    write_json(tmp_path / "a.json", {"path": Path("/y")})

    assert (tmp_path / "a.json").read_text() == '{\n  "path": "/y"\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
