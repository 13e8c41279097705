"""A task of an OSWorld tree from its files in the cache to its verdict, on a real desktop."""

from __future__ import annotations

import hashlib
from pathlib import Path

from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.deploy.cli.verb import require_checker
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.load import load_tasks
from tests.deploy.tasks.osworld_tree import HUB, write_task


def test_an_imported_task_runs_on_the_files_of_the_cache_and_gold_stays_outside(tmp_path: Path):
    late = [{"url": f"{HUB}/a/late.txt", "path": "/home/user/late.txt"}]
    evaluator = {
        "postconfig": [{"type": "download", "parameters": {"files": late}}],
        "func": ["compare_text_file", "compare_text_file"],
        "result": [
            {"type": "vm_file", "path": "/home/user/in.txt", "dest": "in.txt"},
            {"type": "vm_file", "path": "/home/user/late.txt", "dest": "late.txt"},
        ],
        "expected": [
            {"type": "cloud_file", "path": f"{HUB}/a/gold.txt?download=true", "dest": "gold.txt"},
            {"type": "cloud_file", "path": f"{HUB}/a/late.txt", "dest": "late_gold.txt"},
        ],
    }
    write_task(tmp_path, "os", "a", evaluator=evaluator)
    cache = FileCache(tmp_path / "cache")
    cache.put(f"{HUB}/a/in.txt", b"in")
    cache.put(f"{HUB}/a/late.txt", b"late")
    cache.put(f"{HUB}/a/gold.txt?download=true", b"the right answer")
    source = require_checker()
    (task,) = load_tasks(tmp_path, source.vocabulary, cache)
    checker = Checker(source)
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        sandbox.reset(task)
        guest = Guest(Path(f"/proc/{sandbox.guest_pid}/root{SOCKET_PATH}"))

        untouched = checker.verify(task, sandbox.guest_pid, "DONE")
        found = guest.post(
            "/execute", {"command": ["grep", "-rls", "the right answer", "/home", "/tmp", "/run"]}
        )
        guest.upload("/home/user/in.txt", b"the right answer")
        solved = checker.verify(task, sandbox.guest_pid, "DONE")
        sandbox.close()
    checker.close()

    assert (untouched.verdict, untouched.score) == ("failure", 0.0)
    assert b'"output": ""' in found
    assert (solved.verdict, solved.score) == ("success", 1.0)
    assert hashlib.sha256(b"the right answer").hexdigest() in str(solved)
