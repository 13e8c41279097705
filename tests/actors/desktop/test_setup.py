"""Set-up steps, checked before a desktop starts."""

from __future__ import annotations

import json
from typing import cast

import msgspec
import pytest

from envs_node.actors.desktop.errors import DesktopLostError, SetupFailedError
from envs_node.actors.desktop.guest.answer import RefusedError
from envs_node.actors.desktop.guest.programs import Launches, execute
from envs_node.actors.desktop.guestclient import HttpGuest
from envs_node.actors.desktop.readiness import Watched
from envs_node.actors.desktop.setup import SETUP_TYPES, Setup, check_setup
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


@pytest.mark.parametrize(
    ("code", "called"),
    [
        ("import pyautogui; pyautogui.click(1, 2); pyautogui.screenshot()", "screenshot"),
        ("import pyautogui; pyautogui.locateOnScreen('a.png')", "locateOnScreen"),
    ],
)
def test_a_command_that_calls_what_pyautogui_lacks_here_is_refused(code: str, called: str) -> None:
    said = refusal(make_task(("execute", {"command": ["python", "-c", code]})))

    assert f"calls pyautogui.{called}, which is not on this desktop" in said


def test_a_command_that_makes_input_is_taken() -> None:
    code = "import pyautogui; pyautogui.FAILSAFE = False; pyautogui.hotkey('ctrl', 's')"

    check_setup(make_task(("execute", {"command": ["python", "-c", code]})))


@pytest.mark.parametrize(
    ("kind", "parameters", "wanted"),
    [
        ("launch", {"command": [["xterm"]]}, "a string or a list of strings"),
        ("launch", {"command": []}, "a string or a list of strings"),
        ("execute", {"command": ["sleep", 1]}, "a string or a list of strings"),
        ("command", {"command": None}, "a string or a list of strings"),
        ("open", {"path": ["/home/user/a.txt"]}, "a string"),
        ("activate_window", {"window_name": 7}, "a string"),
        ("sleep", {"seconds": "soon"}, "a number"),
        ("upload_file", {"files": "files/a.txt"}, "a list of files"),
        ("upload_file", {"files": ["files/a.txt"]}, "a list of files"),
    ],
)
def test_a_parameter_of_another_type_is_the_tasks_fault(
    kind: str, parameters: dict[str, object], wanted: str
) -> None:
    said = refusal(make_task((kind, parameters)))

    assert f"set-up step 0 ({kind}): `{next(iter(parameters))}` is " in said
    assert said.endswith(f"and must be {wanted}")


def test_the_server_inside_refuses_a_nested_command_and_lives() -> None:
    for run in (Launches().launch, execute):
        with pytest.raises(RefusedError) as caught:
            run({"command": [["xterm"]]})

        assert caught.value.status == 500
        assert "not a string or a list of strings" in str(caught.value.body)


def test_a_long_sleep_is_refused() -> None:
    assert "sleeps more than 60 s" in refusal(make_task(("sleep", {"seconds": 3600})))


def test_a_check_that_calls_what_pyautogui_lacks_here_is_refused() -> None:
    task = make_task()
    save = {"command": ["python", "-c", "import pyautogui; pyautogui.alert('done')"]}
    whole = {**json.loads(task.json), "evaluator": {"postconfig": [{"type": "execute"}]}}
    whole["evaluator"]["postconfig"][0]["parameters"] = save

    said = refusal(msgspec.structs.replace(task, json=json.dumps(whole).encode()))

    assert said.startswith("set-up step 0 (execute of postconfig): calls pyautogui.alert")


class Babbling:
    """A guest's server that answers every request with the same words."""

    def __init__(self, words: bytes) -> None:
        self._words = words

    def post(self, path: str, parameters: object) -> bytes:
        return self._words

    get = post


@pytest.mark.parametrize(
    "words", [b"", b"[]", b'"x"', b"\xff", b"{", b'{"returncode": "0"}', b"[" * 100_000]
)
def test_a_server_that_talks_nonsense_loses_the_desktop_and_does_not_crash_it(words: bytes) -> None:
    task = make_task(("execute", {"command": ["true"]}))
    guest, desktop = cast(HttpGuest, Babbling(words)), cast(Watched, None)

    with pytest.raises(DesktopLostError, match="/setup/execute was answered with nonsense"):
        Setup(task, guest, desktop, (1280, 720)).run()
