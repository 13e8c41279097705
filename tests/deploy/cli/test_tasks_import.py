"""`tasks import`, `check` and `cache`, and what `search` and `eval` take of an OSWorld tree."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from envs_node.deploy.cli.task_source import TasksError, find_tasks, without_infeasible
from envs_node.deploy.cli.tasks_import import Add, Check, Import, SeedError
from envs_node.deploy.cli.verb import require_checker
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.load import load_tasks
from tests.deploy.tasks.osworld_tree import HUB, RULED, write_task


def _tree(root: Path) -> Path:
    """One task that runs as it is, one that downloads, one that cannot be read."""
    write_task(root, "os", "plain", config=[], evaluator=RULED)
    write_task(root, "os", "wants")
    write_task(root, "vlc", "broken").write_text("[]", encoding="utf-8")
    return root


def test_a_tree_is_told_by_domain(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tree = _tree(tmp_path / "tree")

    status = Import(tree=tree, cache=tmp_path / "cache").run()

    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert status == 0
    assert head[:4] == ["domain", "all", "offline", "files"]
    assert [row[:4] for row in rows] == [
        ["os", "2", "1", "1"], ["vlc", "1", "0", "0"], ["sum", "3", "1", "1"]
    ]  # fmt: skip


def test_tasks_that_run_are_written_as_they_are_with_their_files_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tree = _tree(tmp_path / "tree")
    cache = FileCache(tmp_path / "cache")
    cache.put(f"{HUB}/wants/in.txt", b"in")
    cache.put(f"{HUB}/wants/gold.txt", b"gold")

    Import(tree=tree, folder=tmp_path / "out", cache=cache.root, json=True).run()

    rows = json.loads(capsys.readouterr().out)
    assert [row["status"] for row in rows] == ["offline", "offline", "unsupported"]
    written = load_tasks(tmp_path / "out", require_checker().vocabulary)
    kept = load_tasks(tree / "evaluation_examples" / "examples" / "os",
                      require_checker().vocabulary, cache)  # fmt: skip
    assert written == kept


def test_what_is_missing_is_told_with_the_way_out_and_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tree = _tree(tmp_path / "tree")

    status = Check(tree=tree, cache=tmp_path / "cache").run()

    said = capsys.readouterr().out
    assert status == 1
    assert f"{HUB}/wants/in.txt would have to be downloaded" in said
    assert "`envs-node tasks fetch" in said
    assert "1 of 3 tasks lack nothing" in said


def test_a_file_is_put_into_the_cache_by_hand(tmp_path: Path):
    (tmp_path / "in.txt").write_bytes(b"in")

    status = Add(url=f"{HUB}/in.txt", file=tmp_path / "in.txt", cache=tmp_path / "cache").run()

    assert status == 0
    assert FileCache(tmp_path / "cache").get(f"{HUB}/in.txt") == b"in"


@pytest.mark.parametrize(
    ("url", "name"),
    [("notes.txt", "in.txt"), (f"{HUB}/a", "none.txt"), (f"{HUB}/\udcff", "in.txt")],
)
def test_what_cannot_be_put_into_the_cache_is_refused(tmp_path: Path, url: str, name: str):
    (tmp_path / "in.txt").write_bytes(b"in")

    with pytest.raises(SeedError):
        Add(url=url, file=tmp_path / name, cache=tmp_path / "cache").run()


def test_a_search_takes_of_a_tree_what_can_run_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = _tree(tmp_path / "tree")

    tasks = find_tasks(str(tree), 1, 0, require_checker())

    assert [task.id for task in tasks] == ["plain"]
    assert "left out are 1 files, 1 unsupported" in capsys.readouterr().err


def test_a_tree_of_which_nothing_can_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_task(tmp_path / "tree", "os", "wants")

    with pytest.raises(TasksError, match=r"none of the 1 tasks .* \(1 files\)"):
        find_tasks(str(tmp_path / "tree"), 1, 0, require_checker())


def test_one_task_file_gets_its_files_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = write_task(tmp_path / "tree", "os", "wants")
    for name in ("in.txt", "gold.txt"):
        FileCache().put(f"{HUB}/wants/{name}", name.encode())

    (task,) = find_tasks(str(path), 1, 0, require_checker())

    assert sorted(file.data for file in task.files) == [b"gold.txt", b"in.txt"]


def test_a_search_leaves_out_what_cannot_be_done_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = _tree(tmp_path / "tree")
    write_task(tree, "vlc", "never", config=[], evaluator={"func": "infeasible"})
    tasks = find_tasks(str(tree), 1, 0, require_checker())

    kept = without_infeasible(tasks, str(tree))

    assert [task.id for task in tasks] == ["plain", "never"]
    assert [task.id for task in kept] == ["plain"]
    assert "left out as infeasible: 1 tasks" in capsys.readouterr().err
    with pytest.raises(TasksError, match="--infeasible"):
        without_infeasible(tasks[1:], str(tree))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_name_that_is_no_unicode_is_told_in_escapes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], as_json: bool
):
    (tmp_path / os.fsdecode(b"\xff.json")).write_text("[]", encoding="utf-8")

    status = Check(tree=tmp_path, cache=tmp_path / "cache", json=as_json).run()

    told = capfd.readouterr().out
    assert status == 1
    assert "\\udcff" in (json.loads(told)[0]["file"] if as_json else told)
