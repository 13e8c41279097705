"""Tasks come from a file or a folder, complete with their files, or are refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from envs_node.deploy.tasks.load import TASK_BYTES_MAX, inspect_tasks, load_tasks
from envs_node.policy.tasks import TaskError, Vocabulary

KNOWN = Vocabulary(
    metrics=frozenset({"compare_text_file"}),
    getters=frozenset({"vm_file", "cloud_file"}),
    setup_types=frozenset({"sleep"}),
)


def _write(path: Path, **changes: Any) -> Path:
    evaluator = {
        "func": "compare_text_file",
        "result": {"type": "vm_file", "path": "/home/user/a", "dest": "a"},
        "expected": {"type": "cloud_file", "path": "bundle://gold/a", "dest": "g"},
    }
    task = {"id": path.stem, "instruction": "Do it.", "evaluator": evaluator, **changes}
    gold = path.with_suffix("") / "gold"
    gold.mkdir(parents=True)
    (gold / "a").write_bytes(b"gold")
    path.write_text(json.dumps(task), encoding="utf-8")
    return path


def test_one_file_is_one_task_with_the_files_beside_it(tmp_path: Path):
    path = _write(tmp_path / "one.json")
    (tmp_path / "one" / "files" / "deep").mkdir(parents=True)
    (tmp_path / "one" / "files" / "deep" / "b.json").write_text("{}", encoding="utf-8")

    (task,) = load_tasks(path, KNOWN)

    assert task.id == "one"
    assert [file.name for file in task.files] == ["files/deep/b.json", "gold/a"]


def test_a_folder_is_searched_to_its_bottom_and_a_tasks_own_json_files_are_none(tmp_path: Path):
    (tmp_path / "os" / "more").mkdir(parents=True)
    for name in ("b.json", "os/c.json", "os/more/a.json"):
        _write(tmp_path / name)
    (tmp_path / "b" / "files").mkdir()
    (tmp_path / "b" / "files" / "settings.json").write_text("{}", encoding="utf-8")

    tasks = load_tasks(tmp_path, KNOWN)

    assert [task.id for task in tasks] == ["b", "c", "a"]


def test_what_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(TaskError, match="does not exist"):
        load_tasks(tmp_path / "none", KNOWN)
    with pytest.raises(TaskError, match="holds no task"):
        load_tasks(tmp_path, KNOWN)


def test_of_several_refused_tasks_the_first_is_told_and_the_rest_counted(tmp_path: Path):
    _write(tmp_path / "a.json", instruction="")
    _write(tmp_path / "b.json", id="../b")
    _write(tmp_path / "c.json")

    with pytest.raises(TaskError, match=r"a\.json: instruction: .* \(1 more of 3 tasks") as caught:
        load_tasks(tmp_path, KNOWN)

    assert caught.value.field == "instruction"


def test_two_tasks_of_one_id_are_refused(tmp_path: Path):
    _write(tmp_path / "a.json")
    _write(tmp_path / "b.json", id="a")

    with pytest.raises(TaskError, match=r"b\.json: id: 'a' is taken by .*a\.json"):
        load_tasks(tmp_path, KNOWN)


def test_a_task_too_large_for_a_message_is_refused(tmp_path: Path):
    path = _write(tmp_path / "a.json")
    with (tmp_path / "a" / "gold" / "a").open("wb") as file:
        file.truncate(TASK_BYTES_MAX)

    with pytest.raises(TaskError, match="at most"):
        load_tasks(path, KNOWN)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")

    with pytest.raises(TaskError, match=r"pipe\.json: path: cannot be read"):
        load_tasks(tmp_path / "pipe.json", KNOWN)
    with pytest.raises(TaskError, match=r"pipe\.json: whole file: is no regular file"):
        load_tasks(tmp_path, KNOWN)


def test_links_that_lead_round_are_left_out(tmp_path: Path):
    _write(tmp_path / "a.json")
    for name in ("one", "two", "three"):  # followed, they make 3 to the power of 40 folders
        (tmp_path / name).symlink_to(tmp_path)

    assert [task.id for task in load_tasks(tmp_path, KNOWN)] == ["a"]


def test_one_refused_task_does_not_refuse_its_folder(tmp_path: Path):
    _write(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b"{")
    _write(tmp_path / "c.json", id="a")

    found = inspect_tasks(tmp_path, KNOWN)

    assert [Path(item.file).name for item in found] == ["a.json", "b.json", "c.json"]
    assert [item.task is None for item in found] == [False, True, True]
    assert "is not JSON" in str(found[1].lacks[0])
    assert "is taken by" in str(found[2].lacks[0])
