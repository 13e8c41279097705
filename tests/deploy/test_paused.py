"""A search whose policies are all dead says so within a minute, and does not end as a success."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from tests.deploy.lessons import write_tiny_policy
from tests.deploy.nodes import Node, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.live]
UP_S = 120.0
ANY = ("--listen", "tcp://127.0.0.1:0")


def _status(folder: Path, url: str) -> tuple[int, dict[str, Any]]:
    with Node(folder, "status", "status", "--head", url, "--json") as status:
        code = status.process.wait(timeout=UP_S)
        return code, msgspec.json.decode(status.output())


def _desktop_states(folder: Path, url: str) -> list[str]:
    nodes = _status(folder, url)[1]["nodes"]
    return [desktop["state"] for node in nodes for desktop in node["report"]["desktops"]]


LONG = (
    "--search.looks-max", "100",
    "--search.leaves-task-max", "1000",
    "--search.actions-task-max", "100000",
)  # fmt: skip


def test_a_search_without_a_policy_is_paused_and_names_the_way_out(tmp_path: Path) -> None:
    tasks = [t for t in bundled_tasks("train", 1) if t.apps == ("mousepad",)][:1]
    write_tasks(tmp_path / "tasks", tuple(tasks))
    write_tiny_policy(tmp_path / "tiny")
    with contextlib.ExitStack() as nodes:
        start_head = ("start", "--role", "head", "--folder", "heads", *ANY)
        head = nodes.enter_context(Node(tmp_path, "head", *start_head))
        url = head.wait_for(r"head listens at (\S+)", UP_S)
        to = ("--head", url, "--folder", "nodes")
        start_policy = ("start", "--role", "policy", "--policy.folder", "tiny", *to, *ANY)
        policy = nodes.enter_context(Node(tmp_path, "policy", *start_policy))
        policy.wait_for(r"(policy listens at)", UP_S)
        start_desktop = ("start", "--role", "desktop", "--desktop.count", "1", *to)
        nodes.enter_context(Node(tmp_path, "desktop", *start_desktop))
        searching = ("search", "tasks", "--head", url, "--run", "night", *LONG)
        search = nodes.enter_context(Node(tmp_path, "search", *searching))
        wait_until(lambda: "working" in _desktop_states(tmp_path, url), UP_S, "a desktop at work")

        os.kill(policy.process.pid, signal.SIGKILL)
        policy.process.wait(timeout=10)

        said = search.wait_for(r"(paused: no policy answers)", 60)
        code, status = _status(tmp_path, url)
        assert said
        assert code == 1
        assert status["paused"].startswith("no policy answers: start one with")
        assert search.process.poll() is None, "the run has not ended"
        assert [n["node"] for n in status["nodes"] if not n["is_alive"]] != []
        assert {task[0] for task in status["tasks"]} <= {"running", "waiting"}
