"""`status --watch` and `simulate` end as they should, however they are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.sim.trial import memory_folder
from envs_node.deploy.sweep import sweep
from envs_node.messages.status import Status
from tests.deploy.nodes import ENVS_NODE, Node, wait_until


def test_who_watches_stops_by_ctrl_c_and_by_reading_no_more(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/head"
    watch = ["status", "--head", url, "--watch", "--json"]
    with Node(tmp_path, "head", "start", "--role", "head", "--listen", url) as head:
        head.wait_for("(the head listens)", 30)
        with Node(tmp_path, "watch", *watch) as watcher:
            wait_until(lambda: watcher.output().count(b"\n") >= 2, 30, "two lines")
            watcher.process.send_signal(signal.SIGINT)
            status = watcher.process.wait(timeout=15)
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as output, os.fdopen(writer, "wb") as end:
            command = subprocess.Popen(
                [ENVS_NODE, *watch], stdout=end, stderr=subprocess.PIPE, cwd=tmp_path
            )
            end.close()
            first = output.readline()
        story = command.communicate(timeout=30)[1]

    assert (status, watcher.story()) == (0, "")
    assert [msgspec.json.decode(line, type=Status).head for line in (first,)] != [""]
    assert (command.returncode, story) == (1, b"")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_simulation_that_is_stopped_says_so_in_one_line(
    tmp_path: Path, how: signal.Signals
) -> None:
    with Node(tmp_path, "sim", "simulate", "--desktops", "200", "--tasks", "100") as node:
        node.wait_for("(seed 1)", 30)
        node.process.send_signal(how)
        status = node.process.wait(timeout=30)

    assert status == 1
    assert node.story().splitlines()[-1] == "envs-node: stopped by a signal"


def test_what_a_killed_simulation_kept_in_memory_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Node(tmp_path, "sim", "simulate", "--desktops", "200", "--tasks", "100") as node:
        node.wait_for("(seed 1)", 30)
        pid = node.process.pid
        node.process.kill()
        node.process.wait(timeout=30)

    folders = list(Path(memory_folder() or tempfile.gettempdir()).glob(f"envs-node-{pid}-*"))
    swept = sweep()

    assert len(folders) == 1
    assert not folders[0].exists()
    assert [one.node for one in swept] == ["simulate"]
