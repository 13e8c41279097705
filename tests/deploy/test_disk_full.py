"""A disk that is full pauses a run, says so, and takes nothing from it once there is room."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.room import JournalSettings
from envs_node.deploy.parts import HeadParts
from envs_node.deploy.replay import replay_run
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.base import EnvsError
from envs_node.messages.journal import JournalWriter, read_journal
from envs_node.messages.search import Progress
from tests.deploy.fake_node import FakeNode
from tests.deploy.head_process import LONG

DISK_BYTES = 6 * 1024 * 1024
PARTS = HeadParts(open_journal=functools.partial(JournalWriter, reserve_bytes=512 * 1024))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which is small."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)], check=True
    )
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def _fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


async def test_a_run_is_stopped_though_the_disk_takes_no_mark_of_it(disk: Path) -> None:
    config = msgspec.structs.replace(LONG, journal=JournalSettings(free_bytes_min=0))
    node = FakeNode(disk, desktops=1, config=config, parts=PARTS)
    with capture_logs() as logs:
        async with node.open():
            await node.start("r-1")
            await node.watch(lambda progress: any(task.leaves for task in progress.tasks))
            _fill(disk / "filler")
            (disk / "r-1" / "journal" / "reserve").unlink(missing_ok=True)
            _fill(disk / "more")
            with trio.fail_after(20):
                await node.runs.stop("r-1")

            assert node.runs.path() is None
    assert [log["event"] for log in logs if log["event"].startswith("run.un")] == ["run.unmarked"]


async def test_a_head_that_has_no_room_to_begin_with_is_not_deaf_meanwhile(tmp_path: Path) -> None:
    config = msgspec.structs.replace(LONG, journal=JournalSettings(free_bytes_min=1 << 60))
    node = FakeNode(tmp_path, desktops=1, config=config)
    async with node.open():
        with trio.fail_after(10):
            await node.start("r-1")
            standing = await node.runs.standing()
            await node.runs.stop("r-1")

    assert "make room there and it goes on" in standing.paused
    assert RunFolder(tmp_path / "r-1").has_ended()


@pytest.mark.parametrize("left_bytes", [0, 12 * 1024])
async def test_a_run_is_refused_while_the_disk_is_full_and_begun_when_it_is_not(
    disk: Path, left_bytes: int
) -> None:
    _fill(disk / "filler")
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - left_bytes)
    config = msgspec.structs.replace(LONG, journal=JournalSettings(free_bytes_min=0))
    node = FakeNode(disk, desktops=1, config=config, parts=PARTS)
    async with node.open():
        with pytest.raises(EnvsError, match=r"r-1.*No space left"):
            await node.start("r-1")
        (disk / "filler").unlink()

        await node.start("r-1")
        await node.runs.stop("r-1")

    assert (disk / "r-1" / "progress.json").is_file()


@pytest.mark.parametrize("free_bytes_min", [1024 * 1024, 0], ids=["floor", "none"])
async def test_a_run_on_a_full_disk_pauses_and_goes_on_when_there_is_room(
    disk: Path, free_bytes_min: int
) -> None:
    settings = JournalSettings(free_bytes_min=free_bytes_min)
    config = msgspec.structs.replace(LONG, journal=settings)
    node = FakeNode(disk, desktops=1, config=config, parts=PARTS)
    seen: list[Progress] = []

    with capture_logs() as logs:
        async with node.open():
            await node.start("r-1")
            _fill(disk / "filler")
            seen.append(
                await node.watch(lambda progress: bool(progress.reason or progress.is_over))
            )
            _fill(disk / "more")
            await trio.sleep(1.5)
            list(read_journal(disk / "r-1" / "journal"))
            seen.append(await node.watch(lambda progress: True))
            for name in ("filler", "more"):
                (disk / name).unlink()
            progress, folder = await node.finish("r-1")

    assert all(f"at {disk}" in paused.reason for paused in seen)
    assert all("make room there and it goes on" in paused.reason for paused in seen)
    assert not any(paused.is_over for paused in seen)
    assert progress.reason == ""
    assert [task.state for task in progress.tasks] == ["solved", "solved"]
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        kept = store.trajectories(certified_only=True)
    assert sum(task.distinct for task in progress.tasks) == len(kept) > 4
    events = [log["event"] for log in logs]
    assert events.count("run.paused") == events.count("run.resumed") == 1
    assert [log["child"] for log in logs if log["event"] == "child.crashed"] == []
    assert not any(log["cause"] for log in logs if log["event"] == "branch.ended"), "none is lost"
    assert (await replay_run(folder)).differences == ()
