"""A real search that is stopped or killed leaves nothing behind, and goes on when asked."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import Summary, read_summary
from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from tests.deploy.nodes import (
    Node,
    alive,
    branches_under_way,
    descendants,
    mounts,
    wait_until,
)

pytestmark = pytest.mark.live
STOP_S = 10.0
SEARCH = (
    "--desktop.count", "2",
    "--search.leaves-task-max", "3",
    "--search.successes-task-max", "1",
    "--search.steps-max", "6",
    "--search.lease-ms", "5000",
)  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)],
    ids=["ctrl-c", "kill-9"],
)
def test_a_search_ends_cleanly_and_resume_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    task = next(t for t in bundled_tasks("train", 1) if t.apps == ("mousepad",))
    write_tasks(tmp_path / "tasks", (task,))
    run = tmp_path / "r-1"
    mounted = mounts()

    with Node(tmp_path, "first", "search", "tasks", "--run", "r-1", *SEARCH) as first:
        wait_until(lambda: branches_under_way(run / "journal"), 90, "a branch with a node")
        below = descendants(first.process.pid)
        began = time.monotonic()
        first.process.send_signal(how)
        status = first.process.wait(timeout=30)
        stopped_s = time.monotonic() - began
        story = first.story()

    assert status == (1 if how == signal.SIGINT else -signal.SIGKILL), story
    assert stopped_s < STOP_S, f"it took {stopped_s:.1f} s to stop"
    assert ("--resume r-1" in story) == (how == signal.SIGINT)
    assert "Traceback" not in story
    assert len(below) > 10, "two desktops are many processes"
    wait_until(lambda: not alive(below), 5, f"the end of {len(below)} processes")
    assert mounts() <= mounted

    earlier = Summary(run="r-1", version="0", wall_s={"search": 26.0, "fit": 5.0, "all": 31.0})
    write_json(run / "summary.json", earlier)
    with Node(tmp_path, "second", "search", "--resume", "r-1", "--json") as second:
        status = second.process.wait(timeout=150)
        assert status == 0, second.story()
        summary = msgspec.json.decode(second.output())["search"]

    with Node(tmp_path, "replay", "replay", "r-1") as replay:
        status = replay.process.wait(timeout=60)
        assert status == 0, replay.output().decode()

    assert summary["states"].keys() <= {"solved", "exhausted"}
    with LedgerStore(run / "ledger.sqlite", is_read_only=True) as store:
        kept = store.trajectories(certified_only=False)
    assert len({found.path for found in kept}) == len(kept)
    assert sum(found.is_certified for found in kept) == summary["distinct"]
    after = read_summary(RunFolder(run))
    assert after.search is not None
    assert after.wall_s["fit"] == 5.0, "what else was done before stays"
    assert 31.0 < after.wall_s["all"] < 31.0 + 150


@pytest.mark.parametrize(
    "how",
    [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)],
    ids=["term", "kill-9"],
)
def test_a_gate_that_is_ended_leaves_nothing_and_goes_on(
    tmp_path: Path, how: signal.Signals
) -> None:
    task = next(t for t in bundled_tasks("train", 1) if t.template == "xterm-make-folder")
    write_tasks(tmp_path / "tasks", (task,))
    mounted = mounts()

    with Node(tmp_path, "first", "tasks", "admit", "tasks") as first:
        wait_until(lambda: len(descendants(first.process.pid)) > 10, 60, "a desktop")
        below = descendants(first.process.pid)
        first.process.send_signal(how)
        status = first.process.wait(timeout=30)
        story = first.story()

    assert status == (1 if how == signal.SIGTERM else -signal.SIGKILL), story
    assert ("run it again: what was tried" in story) == (how == signal.SIGTERM)
    assert "Traceback" not in story
    wait_until(lambda: not alive(below), 5, f"the end of {len(below)} processes")
    assert mounts() <= mounted

    with Node(tmp_path, "second", "tasks", "admit", "tasks", "--json") as second:
        status = second.process.wait(timeout=150)
        assert status == 0, second.story()

    assert msgspec.json.decode(second.output())["admitted"] == 1


def test_sigterm_ends_a_command_in_the_background_of_a_script_too(tmp_path: Path) -> None:
    """Where the shell has its background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        node = Node(tmp_path, "storm", "simulate", "--seeds", "1..50")
    finally:
        signal.signal(signal.SIGINT, before)
    with node:
        wait_until(lambda: "seed 1" in node.story(), 60, "the first seed")
        node.process.terminate()
        status = node.process.wait(timeout=30)

    assert status == 1, node.story()
    assert "Traceback" not in node.story()
