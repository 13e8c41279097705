"""A check that breaks scores nothing, and what is secret stays outside of desktops."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.tasks import Vocabulary, read_task
from tests.actors.verifier.conftest import OVERLAID, OVERLAY

_PLACES = ("home", "tmp", "var/tmp", "root", "run", "dev/shm", "opt", "srv", "mnt")
GOLD = b"a reference that nobody on a desktop may find: 5d1f0c7e\n"


def _killed_amid(checker: Checker, task: Task, guest_pid: int, who: Callable[[], int]) -> Verdict:
    """What a check comes to during which a process is killed."""
    said: list[Verdict] = []
    judging = threading.Thread(target=lambda: said.append(checker.verify(task, guest_pid, "DONE")))
    judging.start()
    deadline = time.monotonic() + 10
    while not (pid := who()) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    judging.join()
    return said[0]


def _files_with(words: str, places: list[str]) -> list[str]:
    search = ["grep", "--recursive", "--files-with-matches", "--no-messages", "--devices=skip"]
    done = subprocess.run([*search, words, *places], stdout=subprocess.PIPE, check=False)
    return done.stdout.decode().split()


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _judging(checker: Checker) -> int:
    """The process that judges, once the metric hangs; 0 before."""
    for entered in _children(checker.zygote_pid):
        for judging in _children(entered):
            if "sleep" in Path(f"/proc/{judging}/wchan").read_text():
                return judging
    return 0


@pytest.mark.parametrize("who", ["judging", "zygote"])
def test_a_check_whose_process_is_killed_scores_nothing_and_the_next_is_right(
    source, desktop, make_task, who
):
    guest = desktop()
    guest.write("/home/user/a.txt", b"right\n")
    checker = Checker(source, overlay=dict.fromkeys(OVERLAID, OVERLAY))
    checker.start()
    try:
        task = make_task(func="hanging", expected=None)

        def victim() -> int:
            return _judging(checker) and (
                _judging(checker) if who == "judging" else checker.zygote_pid
            )

        killed = _killed_amid(checker, task, guest.pid, victim)
        after = checker.verify(make_task(), guest.pid, "DONE")
    finally:
        checker.close()

    assert (killed.verdict, killed.score) == ("infra", None)
    assert ("ended without an answer" if who == "judging" else "has died") in killed.reason
    assert (after.verdict, after.score) == ("success", 1.0)


def test_one_of_several_metrics_that_is_not_met_is_no_success(checker, desktop, make_task):
    guest = desktop()
    guest.write("/home/user/a.txt", b"right\n")
    there = {"type": "vm_file", "path": "/home/user/a.txt", "dest": "a.txt"}

    def judge(*funcs: str) -> Verdict:
        lists = {"func": list(funcs), "result": [there] * 2, "expected": None, "conj": "and"}
        return checker.verify(make_task(**lists), guest.pid, "DONE")  # type: ignore[no-any-return]

    half, raised = judge("nearly", "half"), judge("nearly", "raising")

    assert (half.verdict, round(half.score or 0, 6)) == ("failure", 0.75)
    assert (raised.verdict, raised.score) == ("failure", None)


def test_gold_is_told_apart_and_found_nowhere_on_the_desktop(
    checker: Checker, vocabulary: Vocabulary
):
    """Read through the desktop's own root: every file of it that it, and not the host, has made."""
    evaluator = {
        "func": "compare_text_file",
        "result": {"type": "vm_file", "path": "/home/user/a.txt", "dest": "a.txt"},
        "expected": {"type": "cloud_file", "path": "bundle://gold/a.txt", "dest": "gold.txt"},
    }
    step = {"path": "/home/user/a.txt"}
    upload = {"files": [{"local_path": "files/a.txt", **step}]}
    task = {
        "id": "secret",
        "instruction": "Find it out.",
        "config": [{"type": "upload_file", "parameters": upload}],
        "evaluator": evaluator,
    }
    files = {"gold/a.txt": GOLD, "files/a.txt": b"a guess\n"}
    secret = read_task(msgspec.json.encode(task), files, vocabulary, file="secret.json")
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        sandbox.reset(secret)
        verdict = checker.verify(secret, sandbox.guest_pid, "DONE")
        root = f"/proc/{sandbox.guest_pid}/root"
        places = [f"{root}/{name}" for name in _PLACES]
        found, leaked = _files_with("a guess", places), _files_with("5d1f0c7e", places)
        sandbox.close()

    assert verdict.verdict == "failure"
    assert [(e.name, e.is_gold) for e in verdict.evidence] == [("a.txt", False), ("gold.txt", True)]
    assert found, "what a desktop has is found so"
    assert leaked == []
    assert [path.name for path in checker.folder.iterdir()] == ["zygote.log"]
