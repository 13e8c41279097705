"""OSWorld's set-up steps, taken strictly: an unknown, incomplete or failed step is an error."""

from __future__ import annotations

import http.client
import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import structlog

from envs_node.actors.desktop.errors import DesktopLostError, SetupFailedError
from envs_node.actors.desktop.guest.modules import pyautogui
from envs_node.actors.desktop.guestclient import GuestRefusedError, HttpGuest
from envs_node.actors.desktop.readiness import Launch, NotReadyError, Watched
from envs_node.messages.tasks import Task
from envs_node.policy.task_files import stored_name

_log = structlog.get_logger(__name__)
_WANTED = {
    "download": "files", "upload_file": "files", "launch": "command", "open": "path",
    "execute": "command", "command": "command", "execute_with_verification": "command",
    "sleep": "seconds", "activate_window": "window_name", "close_window": "window_name",
    "chrome_open_tabs": "urls_to_open", "chrome_close_tabs": "urls_to_close",
    "update_browse_history": "history", "change_wallpaper": "path",
}  # fmt: skip
"""The parameter that a step of each type cannot do without."""
_UNWRITTEN = "OSWorld names this type and has never written it"
_REFUSED = {
    "googledrive": "signs in to a Google account, and none is used here",
    "login": "signs in to somebody's account, and none is used here",
    "proxy": "leads through somebody's proxy; a desktop's way out is allowed_hosts",
    "tidy_desktop": _UNWRITTEN, "act": _UNWRITTEN, "replay": _UNWRITTEN,
}  # fmt: skip
"""Types of OSWorld's that are known and never run, and why."""
SETUP_TYPES = frozenset(_WANTED)
SLEEP_S_MAX = 60.0
_TABS_S = 100.0
"""For Chrome to answer and to load all pages; the server inside ends a command after 120 s."""
_VERIFIED_S_MAX = 100.0
_UNTIL_S, _UNTIL_POLL_S = 60.0, 0.3
"""How long a command is run again until it says what is wanted, and how often, as in OSWorld."""
_PYAUTOGUI = re.compile(r"pyautogui\.([A-Za-z]\w*)")
"""What OSWorld's steps call to make input; a desktop's module of that name has not all of it."""
_GUEST = Path(__file__).parent / "guest"


def check_setup(task: Task) -> None:
    """Refuse a task whose set-up could not be run, without running it.

    Raises:
        SetupFailedError: names the step, its type and what is wrong.
    """
    names = {file.name for file in task.files}
    for number, (kind, parameters) in enumerate(_steps(task)):
        if kind in _REFUSED:
            raise SetupFailedError(number, kind, _REFUSED[kind])
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
        wait_s = parameters.get("max_wait_time", 10)
        if not (_is_number(wait_s) and 0 <= float(wait_s) <= _VERIFIED_S_MAX):
            raise SetupFailedError(number, kind, f"waits more than {_VERIFIED_S_MAX:g} s")
        if not isinstance(parameters.get("until") or {}, dict):
            raise SetupFailedError(number, kind, "`until` must be an object")
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
        case "urls_to_open" | "urls_to_close":
            is_fit = isinstance(value, list) and all(isinstance(url, str) for url in value)
            wanted = "a list of addresses"
        case "history":
            is_fit = isinstance(value, list) and all(_is_visit(visit) for visit in value)
            wanted = "a list of visits: url, title, visit_time_from_now_in_seconds"
        case _:
            is_fit = isinstance(value, str)
            wanted = "a string"
    if not is_fit:
        raise SetupFailedError(
            number, kind, f"`{_WANTED[kind]}` is {value!r:.100}, and must be {wanted}"
        )


def _is_visit(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("url"), str)
        and isinstance(value.get("title"), str)
        and _is_number(value.get("visit_time_from_now_in_seconds"))
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


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended inside a desktop, as its server tells."""

    output: str = ""
    error: str = ""
    returncode: int | None = None


class Setup:
    """Brings a fresh desktop to a task's start."""

    def __init__(
        self, task: Task, guest: HttpGuest, desktop: Watched, size: tuple[int, int]
    ) -> None:
        self._task = task
        self._values = {
            "{SCREEN_WIDTH}": size[0], "{SCREEN_HEIGHT}": size[1],
            "{SCREEN_WIDTH_HALF}": size[0] // 2, "{SCREEN_HEIGHT_HALF}": size[1] // 2,
            "{CLIENT_PASSWORD}": "password",
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
            case "execute_with_verification":
                self._guest.post(f"/setup/{kind}", parameters)
            case "change_wallpaper":
                self._guest.post(f"/setup/{kind}", parameters)
                self._desktop.wait_still()
            case "chrome_open_tabs" | "chrome_close_tabs":
                verb = "open" if kind == "chrome_open_tabs" else "close"
                self._script(number, kind, "tabs", verb, f"{_TABS_S:g}", *parameters[_WANTED[kind]])
                self._desktop.wait_still()
            case "update_browse_history":
                self._script(number, kind, "history", json.dumps(parameters["history"]))
            case "sleep":
                time.sleep(float(parameters["seconds"]))
            case "activate_window" | "close_window":
                self._guest.post(f"/setup/{kind}", parameters)
                self._desktop.wait_still()

    def _execute(self, number: int, kind: str, parameters: dict[str, Any]) -> None:
        wanted = parameters.get("until") or {}
        deadline = time.monotonic() + _UNTIL_S
        while True:
            answer = self._run(parameters)
            if _is_as_wanted(answer, wanted):
                return
            if not wanted or time.monotonic() > deadline:
                said = (answer.error or answer.output).strip()[-300:]
                what = f"{parameters['command']} ended with {answer.returncode}: {said}"
                raise SetupFailedError(number, kind, f"{what:.500}")
            time.sleep(_UNTIL_POLL_S)

    def _script(self, number: int, kind: str, name: str, *words: str) -> None:
        """Run one of our own scripts inside; the server there may be OSWorld's."""
        source = (_GUEST / f"{name}.py").read_text(encoding="utf-8")
        command = ["/usr/bin/python3", "-c", source, *words]
        answer = self._run({"command": command})
        if answer.returncode != 0:
            said = (answer.error or answer.output).strip()
            raise SetupFailedError(number, kind, said.splitlines()[-1] if said else "failed")

    def _run(self, parameters: dict[str, Any]) -> Ran:
        """Have a command run inside, to its end.

        Raises:
            DesktopLostError: its server answers with something else.
        """
        data = self._guest.post("/setup/execute", parameters)
        try:
            return msgspec.json.decode(data, type=Ran)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DesktopLostError(f"/setup/execute was answered with nonsense: {error}") from error

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
            status = msgspec.json.decode(self._guest.get("/setup/launched"), type=Ran).returncode
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        except GuestRefusedError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return None  # OSWorld's own server does not say
        return status

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


def _is_as_wanted(answer: Ran, wanted: dict[str, Any]) -> bool:
    """Whether a command ended as its step asks, which without a wish is with status 0."""
    if not wanted:
        return answer.returncode == 0
    return bool(
        ("returncode" in wanted and answer.returncode == wanted["returncode"])
        or ("stdout" in wanted and str(wanted["stdout"]) in answer.output)
        or ("stderr" in wanted and str(wanted["stderr"]) in answer.error)
    )
