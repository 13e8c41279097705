"""Plays an unmodified OSWorld task on real desktops: untouched, and with its work done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import msgspec

from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.load import load_tasks
from envs_node.messages.actions import Action, Key, Type
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.task_files import Part, wanted_files
from envs_node.policy.tasks import Vocabulary, task_json

TASKS = Path(__file__).parent / "tasks"
WAIT_S = 60.0


class Hands:
    """What a solution may do on a desktop."""

    def __init__(self, sandbox: Sandbox, task: Task) -> None:
        self._sandbox = sandbox
        self._guest = Guest(Path(f"/proc/{sandbox.guest_pid}/root{SOCKET_PATH}"))
        self.task = task

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        self._guest.upload(path, data)

    def run(self, command: str) -> str:
        """What a shell command prints; one that fails fails the test."""
        order = {"command": ["/bin/bash", "-c", command], "shell": False}
        answer = json.loads(self._guest.post("/setup/execute", order))
        assert answer["returncode"] == 0, f"{command}: {answer}"
        return str(answer["output"])

    def edit(self, script: str) -> None:
        """Run a Python script on the desktop, as a user who knows where settings lie might."""
        self.put("/tmp/edit.py", script.encode())
        self.run("python3 /tmp/edit.py")

    def launch(self, command: str, window: str) -> None:
        """Start a program, and wait until a window of this title is there."""
        self._guest.post("/setup/launch", {"command": command, "shell": True})
        self.wait_for(window)

    def wait_for(self, window: str, *, is_there: bool = True) -> None:
        """Wait until a window is there, or is gone, and the picture is still."""
        deadline = time.monotonic() + WAIT_S
        while any(window in each.title for each in self._sandbox.windows()) != is_there:
            titles = [each.title for each in self._sandbox.windows()]
            assert time.monotonic() < deadline, f"waited for {window!r}; there are {titles}"
            time.sleep(0.05)
        self._sandbox.wait_still()

    def quit(self, program: str, window: str) -> None:
        """End a program, and wait until its window is gone."""
        self.run(f"pkill {program}")
        self.wait_for(window, is_there=False)

    def act(self, action: Action) -> None:
        """Perform a canonical action, and wait until the picture is still."""
        self._sandbox.act(action)

    def press(self, keys: str, count: int = 1) -> None:
        """Press keys together: `ctrl+s`."""
        self.act(Key(keys=tuple(keys.split("+")), count=count))

    def type(self, text: str) -> None:
        """Type a text."""
        self.act(Type(text=text))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A task, its files, and a right solution."""

    domain: str
    id: str
    how: str
    """The way of the solution: `driven` through the screen, or with `files` and commands."""
    solve: Callable[[Hands], None]
    make: Callable[[str, Part], bytes] | None = None
    """What stands for a file that the task downloads, by its name and whom it is for."""

    @property
    def name(self) -> str:
        """Domain and the first part of the id."""
        return f"{self.domain}-{self.id.split('-', maxsplit=1)[0]}"

    @property
    def file(self) -> Path:
        """The task file."""
        return TASKS / self.domain / f"{self.id}.json"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the checker said."""

    untouched: Verdict
    solved: Verdict
    seconds: float


def read_case(case: Case, vocabulary: Vocabulary, cache: FileCache) -> Task:
    """The task of a case, its files in a cache as `envs-node tasks fetch` would lay them there."""
    for wanted in wanted_files(json.loads(case.file.read_bytes())):
        assert case.make is not None, f"{case.name} wants {wanted.url}"
        name = unquote(wanted.url.split("?")[0].rsplit("/", 1)[-1])
        cache.put(wanted.url, case.make(name, wanted.part))
    (task,) = load_tasks(case.file, vocabulary, cache)
    return task


def play(case: Case, task: Task, sandbox: Sandbox, checker: Checker) -> Outcome:
    """Judge a task on a desktop that nobody touched, and on a fresh one where it is solved."""
    began = time.monotonic()
    sandbox.reset(task)
    untouched = checker.verify(task, sandbox.guest_pid, "DONE")
    sandbox.reset(task)
    case.solve(Hands(sandbox, task))
    solved = checker.verify(task, sandbox.guest_pid, "DONE")
    return Outcome(untouched=untouched, solved=solved, seconds=time.monotonic() - began)


def result_path(task: Task) -> str:
    """Where on the desktop the checker looks for the work."""
    result = task_json(task)["evaluator"]["result"]
    path = (result[0] if isinstance(result, list) else result)["path"]
    return str(path[0] if isinstance(path, list) else path)
