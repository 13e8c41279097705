"""A node that is killed at any moment leaves no desktop, and what else it leaves is swept.

Rows D7 and D23: a node never takes over the desktops of the one before; they die with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.estate import OWNER_VARIABLE
from envs_node.deploy.process import processes_with
from envs_node.deploy.sweep import sweep
from tests.deploy.nodes import alive, descendants, mounts, wait_until
from tests.deploy.test_sweep import owning_process
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]


def kill_while(doing: str, state: Path, after_s: float = 0.0, processes_min: int = 0) -> None:
    """Kill a node after so long, and once it has so many processes."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.deploy.{doing}_process", str(state)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(state.parent)},
    )
    with process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert [path.name for path in state.iterdir()] == [owner], "what was dead was swept"
        time.sleep(after_s)
        wait_until(
            lambda: len(descendants(process.pid)) >= processes_min, 60, f"{processes_min} processes"
        )
        below = descendants(process.pid)
        marked = {found.pid for found, _ in processes_with(OWNER_VARIABLE, frozenset((owner,)))}
        assert marked or not below, "what is started is marked"
        process.kill()
    wait_until(lambda: not alive(below), 5, f"the end of {len(below)} processes")
    assert not list(processes_with(OWNER_VARIABLE, frozenset((owner,))))


@pytest.mark.parametrize(
    "kills", [3, pytest.param(10, marks=pytest.mark.slow)], ids=["thrice", "ten-times"]
)
def test_a_node_killed_while_an_application_starts_leaves_nothing(
    tmp_path: Path, kills: int
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    chance = Random(kills)

    for kill in range(kills):
        after_s = chance.uniform(0.1, 1.5)
        kill_while("launching", state, after_s, processes_min=0 if kill else 7)

    assert not [place for place in mounts() if place.startswith(str(tmp_path))]
    assert len(sweep(state)) == 1, "the last one's folders"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert list(state.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's desktops are forked")
def test_a_node_killed_with_clones_alive_leaves_nothing_of_them(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)

    kill_while("forking", state, processes_min=30)  # three desktops, and who holds two of them

    assert not [place for place in mounts() if place.startswith(str(tmp_path))]
    assert len(sweep(state)) == 1, "its folders"
    assert list(state.iterdir()) == []


def test_a_desktop_that_outlived_its_node_is_found_by_its_mark_and_swept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with owning_process(state, "dead") as dead:
        dead.die()
        with Launcher(label={OWNER_VARIABLE: dead.id}) as launcher:
            sandbox = Sandbox(launcher)
            sandbox.reset(open_task("xterm"))
            below = descendants(launcher.pid)
            assert len(below) > 6

            (swept,) = sweep(state)

            pids = {int(line.split()[0]) for line in swept.processes}
            assert pids >= {dead.child.pid, launcher.pid, sandbox.guest_pid}
            wait_until(lambda: not alive(below), 5, "the end of the desktop")
            assert not swept.left
            with pytest.raises(DesktopLostError):
                sandbox.close()
