"""OSWorld trees as they are: found, told what they need, and given the files of the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.imported import tree_files
from envs_node.deploy.tasks.load import TASK_BYTES_MAX, inspect_tasks, load_tasks
from envs_node.deploy.tasks.needs import TaskNeeds, count_needs, judge_needs
from envs_node.policy.task_files import stored_name
from envs_node.policy.tasks import TaskError
from tests.deploy.tasks.osworld_tree import HUB, KNOWN, RULED, write_task


def _needs(tree: Path, cache: FileCache, *programs: str) -> list[TaskNeeds]:
    found = frozenset(programs)
    return [
        judge_needs(inspection, cache, lambda name: name if name in found else None)
        for inspection in inspect_tasks(tree, KNOWN, cache)
    ]


def test_a_checkout_its_folder_and_a_list_are_trees_and_other_folders_are_none(tmp_path: Path):
    first = write_task(tmp_path, "os", "a")
    second = write_task(tmp_path, "vlc", "b")
    examples = tmp_path / "evaluation_examples"
    chosen = examples / "test_small.json"
    chosen.write_text(json.dumps({"vlc": ["b"]}), encoding="utf-8")

    assert tree_files(tmp_path) == [first, second]
    assert tree_files(examples) == [first, second]
    assert tree_files(chosen) == [second]
    assert tree_files(examples / "examples") is None
    assert tree_files(first) is None
    assert [task.id for task in load_tasks(examples / "examples", KNOWN)] == ["a", "b"]


def test_a_list_that_names_a_task_that_is_not_there_is_refused(tmp_path: Path):
    write_task(tmp_path, "os", "a")
    chosen = tmp_path / "evaluation_examples" / "test_small.json"
    chosen.write_text(json.dumps({"os": ["a", "z"]}), encoding="utf-8")

    with pytest.raises(TaskError, match="os/z is in no folder"):
        load_tasks(chosen, KNOWN)


def test_files_of_the_cache_travel_with_the_task_and_its_json_stays_as_it_is(tmp_path: Path):
    path = write_task(tmp_path, "os", "a")
    cache = FileCache(tmp_path / "cache")
    cache.put(f"{HUB}/a/in.txt", b"in")
    cache.put(f"{HUB}/a/gold.txt", b"gold")

    (task,) = load_tasks(tmp_path, KNOWN, cache)

    assert task.json == path.read_bytes()
    assert {file.name: file.data for file in task.files} == {
        stored_name(f"{HUB}/a/in.txt", "files"): b"in",
        stored_name(f"{HUB}/a/gold.txt", "gold"): b"gold",
    }


def test_a_damaged_file_of_the_cache_is_told_of_its_task_alone(tmp_path: Path):
    write_task(tmp_path, "os", "a")
    write_task(tmp_path, "os", "b", config=[], evaluator=RULED)
    cache = FileCache(tmp_path / "cache")
    cache.blob(cache.put(f"{HUB}/a/in.txt", b"in")).write_bytes(b"IN")

    first, second = inspect_tasks(tmp_path, KNOWN, cache)

    assert "is damaged" in first.lacks[0].problem
    assert second.task is not None
    assert not second.lacks


def test_files_that_do_not_fit_into_a_message_are_refused_with_their_size(tmp_path: Path):
    write_task(tmp_path, "os", "a")
    cache = FileCache(tmp_path / "cache")
    cache.put(f"{HUB}/a/in.txt", bytes(TASK_BYTES_MAX))

    (inspection,) = inspect_tasks(tmp_path, KNOWN, cache)

    assert f"at most {TASK_BYTES_MAX} can be taken" in inspection.lacks[0].problem


_LAUNCH: Any = {"type": "launch", "parameters": {"command": ["vlc"]}}
_SUDO: Any = {"type": "execute", "parameters": {"command": "echo p | sudo -S ls", "shell": True}}
_ABOUT_SUDO: Any = {"type": "execute", "parameters": {"command": ["cat", "/etc/sudo.conf"]}}
_TAB: Any = {"type": "chrome_open_tabs", "parameters": {"urls_to_open": ["https://a.org/"]}}
_LOGIN: Any = {"type": "login", "parameters": {"settings_file": "s", "platform": "googledrive"}}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"config": [], "evaluator": RULED}, "offline", ""),
        ({}, "files", f"{HUB}/a/in.txt would have to be downloaded"),
        ({"config": [_TAB], "evaluator": RULED}, "web", "opens https://a.org/, a live page"),
        ({"config": [_LOGIN], "evaluator": RULED}, "credentials", "signs in"),
        ({"config": [_LAUNCH], "evaluator": RULED}, "application", "vlc is not here"),
        ({"related_apps": ["vs_code"], "config": []}, "application", "no package of it"),
        ({"instruction": "Clone https://a.org/b", "config": []}, "web", "sends the policy to"),
        ({"instruction": "Look on Google Scholar", "config": []}, "web", "to Google Scholar"),
        ({"evaluator": {"func": "infeasible"}}, "infeasible", ""),
        ({"evaluator": {**RULED, "func": "compare_audios"}}, "unsupported", "needs librosa"),
        ({"evaluator": {**RULED, "func": "no_such"}}, "unsupported", "no metric"),
        ({"config": [_SUDO], "evaluator": RULED}, "unsupported", "runs sudo, and a desktop's user"),
        ({"config": [_ABOUT_SUDO], "evaluator": RULED}, "offline", ""),
        ({"config": [], "evaluator": {**RULED, "postconfig": [_SUDO]}}, "unsupported", "runs sudo"),
        ({"config": [{"type": "dance", "parameters": {}}]}, "unsupported", "no set-up type"),
    ],
)
def test_what_a_task_needs_is_told(tmp_path: Path, changes: dict[str, Any], status: str, said: str):
    write_task(tmp_path, "os", "a", **changes)

    (needs,) = _needs(tmp_path, FileCache(tmp_path / "cache"))

    assert needs.status == status
    assert said in " ".join(f"{lack.problem}; {lack.way_out}" for lack in needs.missing)


def test_a_task_runs_once_its_files_are_in_the_cache(tmp_path: Path):
    write_task(tmp_path, "os", "a")
    cache = FileCache(tmp_path / "cache")
    cache.put(f"{HUB}/a/in.txt", b"in")

    (half,) = _needs(tmp_path, cache)
    cache.put(f"{HUB}/a/gold.txt", b"gold")
    (whole,) = _needs(tmp_path, cache)

    assert (half.status, half.files, half.cached) == ("files", 2, 1)
    assert (whole.status, whole.cached, whole.missing) == ("offline", 2, ())


def test_one_refused_task_does_not_refuse_the_tree(tmp_path: Path):
    write_task(tmp_path, "os", "a", config=[], evaluator=RULED)
    write_task(tmp_path, "vlc", "b").write_text("{", encoding="utf-8")

    needs = _needs(tmp_path, FileCache(tmp_path / "cache"))

    assert {domain: dict(counts) for domain, counts in count_needs(needs).items()} == {
        "os": {"offline": 1},
        "vlc": {"unsupported": 1},
    }
