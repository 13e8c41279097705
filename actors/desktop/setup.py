"""OSWorld's set-up steps, taken strictly: an unknown, incomplete or failed step is an error."""

from __future__ import annotations

import http.client
import json
import re
import time
from typing import Any

import msgspec
import structlog

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.guest.modules import pyautogui
from envs_node.actors.desktop.guestclient import GuestRefusedError, HttpGuest
from envs_node.actors.desktop.readiness import Launch, NotReadyError, Watched
from envs_node.messages.tasks import Task
from envs_node.policy.task_files import stored_name

_log = structlog.get_logger(__name__)
SETUP_TYPES = frozenset(
    {"download", "upload_file", "launch", "open", "execute", "command", "sleep", "activate_window",
     "close_window"}
)  # fmt: skip
SLEEP_S_MAX = 60.0
_PYAUTOGUI = re.compile(r"pyautogui\.([A-Za-z]\w*)")
"""What OSWorld's steps call to make input; a desktop's module of that name has not all of it."""
_WANTED = {
    "download": "files", "upload_file": "files", "launch": "command", "open": "path",
    "execute": "command",
    "command": "command", "sleep": "seconds", "activate_window": "window_name",
    "close_window": "window_name",
}  # fmt: skip


def check_setup(task: Task) -> None:
    """Refuse a task whose set-up could not be run, without running it.

    Raises:
        SetupFailedError: names the step, its type and what is wrong.
    """
    names = {file.name for file in task.files}
    for number, (kind, parameters) in enumerate(_steps(task)):
        if kind not in SETUP_TYPES:
            known = ", ".join(sorted(SETUP_TYPES))
            raise SetupFailedError(number, kind, f"unknown type; known are {known}")
        if _WANTED[kind] not in parameters:
            raise SetupFailedError(number, kind, f"lacks `{_WANTED[kind]}`")
        _check_value(number, kind, parameters[_WANTED[kind]])
        if kind in ("download", "upload_file"):
            for file in parameters["files"]:
                _check_file(number, kind, file, names)
        if kind == "sleep" and not 0 <= float(parameters["seconds"]) <= SLEEP_S_MAX:
            raise SetupFailedError(number, kind, f"sleeps more than {SLEEP_S_MAX:g} s")
        _check_input(number, kind, parameters)
    for number, (kind, parameters) in enumerate(_steps(task, of_check=True)):
        _check_input(number, f"{kind} of postconfig", parameters)


def _check_value(number: int, kind: str, value: Any) -> None:
    """Refuse what the server inside would break over: a nested list of words, say."""
    match _WANTED[kind]:
        case "files":
            is_fit = isinstance(value, list) and all(isinstance(file, dict) for file in value)
            wanted = "a list of files"
        case "command":
            words = value if isinstance(value, list) else [value]
            is_fit = bool(words) and all(isinstance(word, str) for word in words)
            wanted = "a string or a list of strings"
        case "seconds":
            is_fit = _is_number(value)
            wanted = "a number"
        case _:
            is_fit = isinstance(value, str)
            wanted = "a string"
    if not is_fit:
        raise SetupFailedError(
            number, kind, f"`{_WANTED[kind]}` is {value!r:.100}, and must be {wanted}"
        )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_input(number: int, kind: str, parameters: dict[str, Any]) -> None:
    for called in _PYAUTOGUI.findall(json.dumps(parameters)):
        if called not in pyautogui.__all__:
            said = f"calls pyautogui.{called}, which is not on this desktop"
            raise SetupFailedError(number, kind, said)


def _check_file(number: int, kind: str, file: dict[str, Any], names: set[str]) -> None:
    if kind == "download":
        url = str(file.get("url", ""))
        name = stored_name(url, "files")
        if name not in names:
            missing = f"{url} is not in the cache of task files: `envs-node tasks fetch` gets it"
            raise SetupFailedError(number, kind, missing)
    else:
        name = str(file.get("local_path", ""))
        if name not in names and name.split("/")[0] != "gold":
            raise SetupFailedError(number, kind, f"the task has no file {name!r}")
    if name.split("/")[0] == "gold":
        raise SetupFailedError(number, kind, f"{name} is a gold file: it stays outside")
    if not str(file.get("path", "")).strip():
        raise SetupFailedError(number, kind, f"{name} needs a `path`")


def _steps(task: Task, *, of_check: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """The steps of a task's `config`, or those that its check takes first."""
    try:
        whole = json.loads(task.json)
        steps = (
            (whole.get("evaluator") or {}).get("postconfig") if of_check else whole.get("config")
        )
        return [(str(step["type"]), dict(step.get("parameters", {}))) for step in steps or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupFailedError(0, "config", f"{task.id} is not readable: {error}") from error


class Setup:
    """Brings a fresh desktop to a task's start."""

    def __init__(
        self, task: Task, guest: HttpGuest, desktop: Watched, size: tuple[int, int]
    ) -> None:
        self._task = task
        self._values = {
            "{SCREEN_WIDTH}": size[0], "{SCREEN_HEIGHT}": size[1],
            "{SCREEN_WIDTH_HALF}": size[0] // 2, "{SCREEN_HEIGHT_HALF}": size[1] // 2,
        }  # fmt: skip
        self._guest = guest
        self._desktop = desktop
        self._files = {file.name: file.data for file in task.files}

    def run(self) -> None:
        """Take all steps in order.

        Raises:
            SetupFailedError: a step failed; the desktop is in an undefined state.
        """
        for number, (kind, parameters) in enumerate(_steps(self._task)):
            try:
                self._take(number, kind, self._substitute(parameters))
            except GuestRefusedError as error:
                raise SetupFailedError(number, kind, str(error)) from error

    def _take(self, number: int, kind: str, parameters: dict[str, Any]) -> None:
        match kind:
            case "download":
                for file in parameters["files"]:
                    name = stored_name(file["url"], "files")
                    self._guest.upload(file["path"], self._files[name])
            case "upload_file":
                for file in parameters["files"]:
                    self._guest.upload(file["path"], self._files[file["local_path"]])
            case "launch" | "open":
                self._launch(number, kind, parameters)
            case "execute" | "command":
                self._execute(number, kind, parameters)
            case "sleep":
                time.sleep(float(parameters["seconds"]))
            case "activate_window" | "close_window":
                self._guest.post(f"/setup/{kind}", parameters)
                self._desktop.wait_still()

    def _execute(self, number: int, kind: str, parameters: dict[str, Any]) -> None:
        answer = json.loads(self._guest.post("/setup/execute", parameters))
        if answer.get("returncode") != 0:
            said = (answer.get("error") or answer.get("output") or "").strip()[-300:]
            raise SetupFailedError(
                number, kind, f"{parameters['command']} ended with {answer['returncode']}: {said}"
            )

    def _launch(self, number: int, kind: str, parameters: dict[str, Any]) -> None:
        launch = Launch(self._desktop)
        path = "/setup/launch" if kind == "launch" else "/setup/open_file"
        self._guest.post(path, parameters)
        try:
            readiness = launch.wait(self._returncode)
        except NotReadyError as error:
            raise SetupFailedError(number, kind, f"{parameters[_WANTED[kind]]} {error}") from error
        told = msgspec.to_builtins(readiness)
        if readiness.how == "window":
            _log.debug("program.launched", task_id=self._task.id, step=number, **told)
        else:
            _log.info("program.launched", task_id=self._task.id, step=number, **told)

    def _returncode(self) -> int | None:
        """How the program that was launched last has ended; None while it runs, or nobody knows."""
        try:
            status = json.loads(self._guest.get("/setup/launched")).get("returncode")
        except GuestRefusedError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return None  # OSWorld's own server does not say
        return status if isinstance(status, int) else None

    def _substitute(self, value: Any) -> Any:
        """Replace OSWorld's placeholders in every string."""
        if isinstance(value, dict):
            return {name: self._substitute(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._substitute(inner) for inner in value]
        if isinstance(value, str):
            for name, number in self._values.items():
                value = value.replace(name, str(number))
        return value
