"""However a process is stopped, it closes what it holds, and says in one line how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def started(folder: Path, kind: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.deploy.stopping_process", str(folder), kind],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stderr is not None
    if kind != "dying":
        assert process.stderr.readline().startswith("ready")
    return process


def test_further_signals_do_not_cut_the_clean_up(tmp_path: Path) -> None:
    """Row E20."""
    process = started(tmp_path, "slow")

    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
        time.sleep(0.05)
    _, story = process.communicate(timeout=10)

    assert process.returncode == 1
    assert story.splitlines() == [
        "stopping: desktops and policies are being closed",
        "closed",
        "envs-node: stopped by a signal; hint",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["n.jsonl"]


def test_a_process_that_hangs_in_a_thread_ends_all_the_same(tmp_path: Path) -> None:
    """Row E10, of the whole process."""
    process = started(tmp_path, "stuck")
    began_s = time.monotonic()

    process.send_signal(signal.SIGTERM)
    _, story = process.communicate(timeout=10)

    assert process.returncode == 1
    assert "does not end, and was left behind" in story
    assert "`envs-node sweep`" in story
    assert time.monotonic() - began_s < 5
    lines = [json.loads(line) for line in (tmp_path / "n.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["child.abandoned"]


def test_a_node_that_gives_up_says_the_first_cause_in_one_line_and_ends_with_1(
    tmp_path: Path,
) -> None:
    process = started(tmp_path, "dying")
    _, story = process.communicate(timeout=10)

    assert process.returncode == 1
    (line,) = (line for line in story.splitlines() if line.startswith("envs-node: "))
    assert line.startswith(
        "envs-node: node/child crashed 3 times within 30 s, first with ZeroDivisionError: the cause"
    )
    assert "Traceback" not in story


def test_the_traceback_of_a_crash_is_kept_when_the_process_is_killed_at_once(
    tmp_path: Path,
) -> None:
    """Row F11: nothing of the log waits in a buffer."""
    process = started(tmp_path, "killed")
    time.sleep(0.01)
    process.kill()
    process.communicate(timeout=10)

    first = json.loads((tmp_path / "n.jsonl").read_text().splitlines()[0])
    assert first["event"] == "child.crashed"
    assert "in dying" in first["traceback"]
    assert "ZeroDivisionError: the cause" in first["traceback"]
