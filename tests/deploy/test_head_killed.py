"""A head that is killed and resumed ends with the ledger and the tree of one that is not."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.mailbox import Ref
from envs_node.deploy.journals import RebuiltSearch
from envs_node.deploy.parts import make_search
from envs_node.deploy.replay import replay_run
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.base import ActorName, Message
from envs_node.messages.journal import read_journal
from envs_node.messages.ledger import Trajectory

_POLL_S = 0.002
_LIFE_S = 60.0


class NoLedger(Ref):
    """Whoever is rebuilt from a whole journal has all answers in it."""

    name = ActorName("ledger")

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        raise AssertionError(f"not in the journal: the answer to {message!r}")

    def tell(self, message: Message) -> None:
        raise AssertionError(f"told {message!r}")


def _start(root: Path, *, is_resumed: bool) -> subprocess.Popen[bytes]:
    words = ["resume"] if is_resumed else []
    return subprocess.Popen(
        [sys.executable, "-m", "tests.deploy.head_process", str(root), "r-1", *words],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _journal_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "r-1" / "journal").glob("*.journal"))


def _live(root: Path, until_bytes: float) -> bool:
    """One life of the head: killed once its journal is so long. True when it came to its end."""
    is_begun = (root / "r-1" / "manifest.json").exists()
    head = _start(root, is_resumed=is_begun)
    deadline_s = time.monotonic() + _LIFE_S
    try:
        while head.poll() is None and _journal_bytes(root) < until_bytes:
            assert time.monotonic() < deadline_s, "the head neither ends nor goes on"
            time.sleep(_POLL_S)
    finally:
        head.kill()
        _, errors = head.communicate()
    assert head.returncode in (0, -9), errors.decode()
    return head.returncode == 0


def _ledger(folder: RunFolder) -> list[Trajectory]:
    """What was found, without when and by which branch."""
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        found = store.trajectories(certified_only=False)
    return sorted(found, key=lambda trajectory: (trajectory.task_id, trajectory.path))


async def _trees(folder: RunFolder) -> dict[str, Any]:
    """The tree of each task, rebuilt from all that its search ever heard."""
    entries = list(read_journal(folder.journal))
    settings = folder.manifest().config.search
    trees = {}
    for task in folder.load_tasks():
        mine = [e for e in entries if e.actor == f"search/{task.id}" and e.kind != "ended"]
        search = make_search(task, settings)
        await RebuiltSearch(search, NoLedger(), mine).start()
        trees[task.id] = search.tree.nodes()
    return trees


def _kill_at_points(tmp_path: Path, count: int, seed: int) -> None:
    assert _live(tmp_path / "calm", float("inf"))
    calm = RunFolder.open(tmp_path / "calm" / "r-1")
    length = _journal_bytes(tmp_path / "calm")
    points = sorted(Random(seed).sample(range(16, int(length * 0.9)), count))

    ended = [_live(tmp_path / "storm", point) for point in points]
    assert not any(ended), f"it ended before the last kill: {points} of {length}"
    assert _live(tmp_path / "storm", float("inf"))

    storm = RunFolder.open(tmp_path / "storm" / "r-1")
    assert storm.has_ended()
    assert _ledger(storm) == _ledger(calm)
    assert len(_ledger(storm)) > 4
    trees = trio.run(_trees, storm)
    assert trees == trio.run(_trees, calm)
    assert sum(map(len, trees.values())) > 8
    assert trio.run(replay_run, storm).differences == ()


def test_killed_at_five_points_the_ledger_and_the_tree_are_those_of_a_calm_run(
    tmp_path: Path,
) -> None:
    _kill_at_points(tmp_path, count=5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_killed_at_twenty_points_the_ledger_and_the_tree_are_those_of_a_calm_run(
    tmp_path: Path, seed: int
) -> None:
    _kill_at_points(tmp_path, count=20, seed=seed)
