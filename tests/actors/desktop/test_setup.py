"""Set-up steps, checked before a desktop starts."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.setup import SETUP_TYPES, check_setup
from envs_node.messages.tasks import Task
from tests.fakes_desktop import make_task


def refusal(task: Task) -> str:
    with pytest.raises(SetupFailedError) as caught:
        check_setup(task)
    return str(caught.value)


def test_an_unknown_step_is_refused_by_name() -> None:
    said = refusal(make_task(("launch", {"command": ["xterm"]}), ("dance", {})))

    assert said.startswith("set-up step 1 (dance): unknown type; known are activate_window, ")


@pytest.mark.parametrize("kind", sorted(SETUP_TYPES))
def test_a_step_that_lacks_its_parameter_is_refused(kind: str) -> None:
    assert f"({kind}): lacks `" in refusal(make_task((kind, {})))


def test_a_gold_file_never_enters_a_desktop() -> None:
    files = [{"local_path": "gold/a.txt", "path": "/home/user/a.txt"}]

    said = refusal(make_task(("upload_file", {"files": files}), files={"gold/a.txt": b"x"}))

    assert "gold/a.txt is a gold file" in said


@pytest.mark.parametrize("name", ["files/../gold/a.txt", "./gold/a.txt", "files/b.txt"])
def test_only_files_of_the_task_are_uploaded(name: str) -> None:
    files = [{"local_path": name, "path": "/home/user/a.txt"}]

    said = refusal(make_task(("upload_file", {"files": files}), files={"gold/a.txt": b"x"}))

    assert f"the task has no file '{name}'" in said


def test_a_task_that_is_no_json_is_refused() -> None:
    task = make_task()
    broken = Task(
        id=task.id, instruction="", template="t", split="train", apps=(), json=b"{", sha256=""
    )

    assert "is not readable" in refusal(broken)


def test_a_long_sleep_is_refused() -> None:
    assert "sleeps more than 60 s" in refusal(make_task(("sleep", {"seconds": 3600})))
