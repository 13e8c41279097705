"""The real checker, and small desktops to judge."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import Vocabulary, read_task

HERE = Path(__file__).parent
OVERLAY = HERE / "metrics_for_tests.py"
OVERLAID = tuple(
    node.name for node in ast.parse(OVERLAY.read_bytes()).body if isinstance(node, ast.FunctionDef)
)


class Guest:
    """A desktop in a process and network namespace of its own, serving a folder."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder
        script = str(HERE / "guest.py")
        apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "-U", "-r"]
        self._process = subprocess.Popen(
            [*apart, sys.executable, script, str(folder), mode], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the guest did not come up"
        self.pid = self._process.pid

    def write(self, name: str, data: bytes) -> None:
        """Put a file onto the desktop."""
        path = self.folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def freeze(self) -> None:
        """Stop the guest without ending it."""
        os.kill(self.pid, signal.SIGSTOP)

    def end(self) -> None:
        """Kill the guest."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="session")
def source() -> CheckerSource:
    """The installed checker; `make test` installs it."""
    return read_checker(checker_folder())


@pytest.fixture(scope="session")
def vocabulary(source: CheckerSource) -> Vocabulary:
    """What the installed checker knows, and the metrics of these tests."""
    known = source.vocabulary
    return msgspec.structs.replace(known, metrics=known.metrics | set(OVERLAID))


@pytest.fixture(scope="session")
def checker(source: CheckerSource) -> Iterator[Checker]:
    """One warm checker for all tests, as a node has it."""
    checker = Checker(source, verdict_s=2.0, overlay=dict.fromkeys(OVERLAID, OVERLAY))
    checker.start()
    yield checker
    checker.close()


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Callable[[str], Guest]]:
    """Start desktops; they end with the test."""
    guests: list[Guest] = []

    def start(mode: str = "sound") -> Guest:
        guests.append(Guest(tmp_path, mode))
        return guests[-1]

    yield start
    for guest in guests:
        guest.end()


@pytest.fixture(scope="session")
def make_task(vocabulary: Vocabulary) -> Callable[..., Task]:
    """Make a task that wants `/home/user/a.txt` to be `right`, but for what is given."""

    def make(**evaluator: Any) -> Task:
        whole = {
            "func": "compare_text_file",
            "result": {"type": "vm_file", "path": "/home/user/a.txt", "dest": "a.txt"},
            "expected": {"type": "cloud_file", "path": "bundle://gold/a.txt", "dest": "gold.txt"},
            **evaluator,
        }
        task = {
            "id": "test",
            "instruction": "Write it.",
            "evaluator": {key: value for key, value in whole.items() if value is not None},
        }
        files = {"gold/a.txt": b"right\n", "files/a.txt": b"right\n"}
        return read_task(msgspec.json.encode(task), files, vocabulary, file="test.json")

    return make
