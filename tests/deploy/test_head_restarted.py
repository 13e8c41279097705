"""Whoever conducts a run on a head outlives the death of the head, and the run goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.conduct import RunLostError, conduct_at, run_request
from envs_node.deploy.run_folder import RunFolder, find_unfinished
from envs_node.messages.journal import read_journal
from envs_node.messages.search import Progress, Tick
from tests.deploy.fake_node import TASKS
from tests.deploy.head_process import LONG

ROOT = Path(__file__).parents[2]


@contextmanager
def head(root: Path, url: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A head in a process of its own; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.deploy.head_process", str(root), url, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Watcher:
    """Kills the head once the run is under way, and notes what it is told."""

    def __init__(self) -> None:
        self.seen: list[Progress] = []
        self.first: subprocess.Popen[bytes]
        self.has_begun = trio.Event()

    def __call__(self, progress: Progress) -> None:
        self.seen.append(progress)
        if not self.has_begun.is_set():
            assert not progress.is_over
            self.first.kill()
            self.first.wait()
            self.has_begun.set()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="asked"),
        pytest.param(("resume",), id="by-itself", marks=pytest.mark.slow),
    ],
)
async def test_a_run_goes_on_when_its_head_was_killed_and_started_again(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    url = f"ipc://{tmp_path}/head.sock"
    watcher = Watcher()
    results: list[Progress] = []
    is_done = trio.Event()
    request = run_request("r-1", LONG, TASKS)

    async def conduct() -> None:
        results.append(await conduct_at(url, request, watcher, silence_s=40))
        is_done.set()

    with trio.fail_after(60), head(tmp_path / "runs", url) as watcher.first:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(conduct)
            await watcher.has_begun.wait()
            left = find_unfinished(tmp_path / "runs", has_policy=True)
            assert left is not None
            assert left.run == "r-1"
            with head(tmp_path / "runs", url, *words):
                await is_done.wait()

    folder = RunFolder.open(tmp_path / "runs" / "r-1")
    assert results[0].is_over
    assert [task.state for task in results[0].tasks] == ["solved", "solved"]
    assert folder.has_ended()
    assert find_unfinished(tmp_path / "runs", has_policy=True) is None
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        kept = store.trajectories(certified_only=True)
    assert sum(task.distinct for task in results[0].tasks) == len(kept)
    anew = [
        entry
        for entry in read_journal(folder.journal)
        if entry.kind == "heard" and entry.envelope and entry.envelope.message == Tick(is_anew=True)
    ]
    assert 1 <= len(anew) <= len(TASKS), "its desktops died with it: their leases lapse at once"


@pytest.mark.slow
async def test_a_head_that_stays_away_is_given_up_after_the_stated_silence(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/head.sock"
    watcher = Watcher()

    lost = pytest.RaisesExc(RunLostError, match=r"lost the run r-1: .*--resume r-1")
    with (
        trio.fail_after(60),
        head(tmp_path / "runs", url) as watcher.first,
        pytest.RaisesGroup(lost, flatten_subgroups=True),
    ):
        await conduct_at(url, run_request("r-1", LONG, TASKS), watcher, silence_s=1)
