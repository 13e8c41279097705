"""A real node that is killed is swept, socket and all, by the next one or by the verb."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.sweep import Swept
from tests.deploy.nodes import Node

pytestmark = pytest.mark.live


def test_a_killed_head_is_swept_and_a_stopped_one_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows E6 and E20, on a head that listens at a unix-domain address."""
    run, scratch = tmp_path / "run", tmp_path / "tmp"
    for folder in (run, scratch):
        folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    monkeypatch.setenv("TMPDIR", str(scratch))
    place = tmp_path / "head.sock"
    start = ("start", "--role", "head", "--listen", f"ipc://{place}", "--folder", "runs")

    with Node(tmp_path, "killed", *start) as killed:
        killed.wait_for(r"(listens at)", 60)
        killed.process.kill()
        killed.process.wait()
    assert place.is_socket(), "its socket outlived it"

    with Node(tmp_path, "sweep", "sweep", "--json") as sweep:
        assert sweep.process.wait(timeout=60) == 0, sweep.story()
    (swept,) = msgspec.json.decode(sweep.output(), type=list[Swept])
    assert swept.sockets == (str(place),)
    assert not place.exists()
    assert os.listdir(scratch) == []

    with Node(tmp_path, "stopped", *start) as stopped:
        stopped.wait_for(r"(listens at)", 60)
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            stopped.process.send_signal(number)
            time.sleep(0.05)
        assert stopped.process.wait(timeout=15) == 0, stopped.story()

    assert "Traceback" not in stopped.story()
    assert not place.exists()
    assert os.listdir(scratch) == os.listdir(run / "envs-node") == []
