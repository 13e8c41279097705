"""Whatever stands in a task file, looking at it says what is wrong with it and raises nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.setup import check_setup
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.needs import TaskNeeds, judge_needs
from envs_node.deploy.tasks.seed import find_seeds
from envs_node.policy.tasks import (
    TaskError,
    inspect_task,
    postconfig_sleep_s,
    read_task,
    task_json,
    unsupported_reason,
)
from tests.deploy.tasks.osworld_tree import HUB, KNOWN

WHOLE: dict[str, Any] = {
    "id": "a",
    "instruction": "Do it.",
    "related_apps": ["os"],
    "config": [
        {"type": "download", "parameters": {"files": [{"url": f"{HUB}/a", "path": "/a"}]}},
        {"type": "launch", "parameters": {"command": ["vlc"]}},
        {"type": "chrome_open_tabs", "parameters": {"urls_to_open": ["http://localhost/"]}},
    ],
    "evaluator": {
        "postconfig": [{"type": "sleep", "parameters": {"seconds": 1}}],
        "func": ["compare_text_file"],
        "result": [{"type": "vm_file", "path": "/a", "dest": "a"}],
        "expected": [{"type": "cloud_file", "path": f"{HUB}/gold", "dest": "gold"}],
    },
}
ODD = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    " ",
    "http://[",
    "x" * 999,
    "../a",
    [],
    [None],
    ["http://["],
)
VALUES = (*ODD, [[" "]], {}, {"a": 1}, "infeasible", {"type": "cloud_file"})


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    return [p for key in keys for p in ((*above, key), *_places(value[key], (*above, key)))]


PLACES = _places(WHOLE)


def _changed(place: tuple[Any, ...], value: Any, *, is_gone: bool = False) -> dict[str, Any]:
    task = copy.deepcopy(WHOLE)
    holder: Any = task
    for key in place[:-1]:
        holder = holder[key]
    if is_gone:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return task


def _looked_at(task: Any) -> TaskNeeds:
    """All that is done with a task before a desktop starts."""
    data, nowhere = json.dumps(task).encode(), Path("/nowhere")
    found = inspect_task(data, {}, KNOWN, file="a.json")
    needs = judge_needs(found, FileCache(nowhere), lambda _: None)
    if found.task is None:
        with pytest.raises(TaskError):
            read_task(data, {}, KNOWN, file="a.json")
        return needs
    assert read_task(data, {}, KNOWN, file="a.json") == found.task
    find_seeds(found.task.id, task_json(found.task), nowhere)
    unsupported_reason(found.task, KNOWN)
    postconfig_sleep_s(found.task)
    try:
        check_setup(found.task)
    except SetupFailedError:
        assert needs.status != "offline"
    return needs


@given(st.sampled_from(PLACES), st.sampled_from(VALUES), st.booleans())
def test_no_value_at_any_place_breaks_the_look_at_a_task(
    place: tuple[Any, ...], value: Any, is_gone: bool
):
    _looked_at(_changed(place, value, is_gone=is_gone))


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("related_apps",), 5, "5 stands where a list is needed"),
        (("related_apps",), None, "in.txt"),
        (("instruction",), "Look at http://[", "sends the policy to http://["),
        (("config", 2, "parameters", "urls_to_open"), ["http://["], "opens http://["),
        (("config", 1, "parameters", "command"), " ", "is empty"),
        (("config", 0, "parameters", "files", 0, "url"), "http://[", "to be downloaded"),
    ],
)
def test_what_stands_there_is_told(place: tuple[Any, ...], value: Any, said: str):
    told = [lack.problem for lack in _looked_at(_changed(place, value)).missing]

    assert any(said.replace("in.txt", HUB) in line for line in told)


def test_the_steps_of_a_task_that_cannot_be_done_are_checked_too():
    task = _changed(("evaluator",), {"func": "infeasible", "postconfig": [5]})

    assert [lack.field for lack in _looked_at(task).missing] == ["evaluator.postconfig[0]"]
    assert _looked_at(_changed(("evaluator",), {"func": "infeasible", "result": 5})).files == 1


def test_a_step_that_waits_until_something_else_than_an_object_is_refused():
    step = {"type": "execute", "parameters": {"command": "true", "until": 5}}
    task = read_task(json.dumps(_changed(("config",), [step])).encode(), {}, KNOWN, file="a.json")

    with pytest.raises(SetupFailedError, match="`until` must be an object"):
        check_setup(task)
