"""Whoever would write waits while the disk is full, and the disk is looked at once a second."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from envs_node.actors.base import Actor
from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.ledger.errors import LedgerFullError
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.recorder import Recorder
from envs_node.actors.room import Room
from envs_node.messages.base import ActorName, Message, RunId, TaskId
from envs_node.messages.journal import JournalFullError, JournalWriter, read_journal
from envs_node.messages.ledger import LedgerStats, OutcomeKept, TaskOutcome, Trajectory

HERE = Path("/run/here")
OUTCOME = TaskOutcome(
    task_id=TaskId("t"), template="t", split="train", leaves=1, successes=1, state="solved"
)


ECHO = ActorName("echo")


class EchoActor(Actor[Message]):
    async def hear(self, message: Message) -> Message:
        return message


class Disk:
    """Counts who looks at it."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.looks = 0

    def look(self, folder: Path) -> int:
        assert folder == HERE
        self.looks += 1
        return self.free_bytes


class FullStore:
    """A store that finds no room so many times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.kept: list[TaskOutcome] = []

    def keep_outcome(self, outcome: TaskOutcome) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise LedgerFullError(HERE, 0)
        self.kept.append(outcome)

    def admit(self, trajectory: Trajectory) -> bool:
        return True

    def lacking(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(names)

    def store_blob(self, name: str, sha256: str, kind: str, data: bytes) -> str:
        return sha256

    def stats(self) -> LedgerStats:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def test_a_disk_with_room_is_looked_at_once_a_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = Disk(100)
    room = Room(HERE, 10, free_bytes=disk.look)

    for _ in range(50):
        await room.wait()
        await trio.sleep(0.1)

    assert 4 <= disk.looks <= 6
    assert room.why_paused() == ""


async def test_all_wait_until_there_is_room_and_it_is_told_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = Disk(9)
    room = Room(HERE, 10, free_bytes=disk.look)

    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(room.wait)
            await trio.sleep(100)
            paused = room.why_paused()
            disk.free_bytes = 10

    assert paused == (
        "paused: 9 bytes are free, 10 are wanted at /run/here; make room there and it goes on"
    )
    assert room.why_paused() == ""
    assert [log["event"] for log in logs] == ["run.paused", "run.resumed"]
    assert room.statistics() == {"pauses": 1}
    assert trio.current_time() < 102


async def test_a_journal_without_its_reserve_pauses_though_the_disk_says_otherwise(
    autojump_clock: trio.testing.MockClock,
) -> None:
    short = [True]
    room = Room(HERE, 0, free_bytes=Disk(10**12).look, is_short=lambda: short[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.wait)
        await trio.sleep(5)
        paused = room.why_paused()
        short[0] = False

    assert "the disk takes no more" in paused


@pytest.mark.parametrize("failures", [1, 5])
async def test_a_ledger_that_finds_no_room_keeps_it_when_there_is_some(
    autojump_clock: trio.testing.MockClock, failures: int
) -> None:
    async def at_once(call, *, limiter=None):  # type: ignore[no-untyped-def]
        return call()

    store = FullStore(failures)
    room = Room(HERE, 0, free_bytes=Disk(0).look)
    ledger = LedgerActor(lambda: store, run_blocking=at_once, room=room)
    await ledger.start()

    with capture_logs() as logs:
        answer = await ledger.hear(OUTCOME)
        paused = room.why_paused()
        await trio.sleep(5)
        await room.wait()

    assert answer == OutcomeKept(task_id=TaskId("t"))
    assert store.kept == [OUTCOME]
    assert "bytes are free" in paused
    assert [log["event"] for log in logs] == ["run.paused", "run.resumed"]


async def test_a_reserve_that_is_given_up_between_two_looks_pauses_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    short = [False]
    room = Room(HERE, 0, free_bytes=Disk(10**12).look, is_short=lambda: short[0])
    await room.wait()
    short[0] = True

    with trio.move_on_after(0.01):
        await room.wait()

    assert "the disk takes no more" in room.why_paused()


async def test_whoever_waits_for_a_pause_is_told_of_each(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = Disk(100)
    room = Room(HERE, 10, free_bytes=disk.look)
    pauses: list[float] = []

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.wait_paused)
            await trio.sleep(5)
            disk.free_bytes = 9
            nursery.start_soon(room.wait)
            await room.wait_paused()
            pauses.append(trio.current_time())
            disk.free_bytes = 100
        with trio.move_on_after(1) as scope:
            await room.wait_paused()
        assert scope.cancelled_caught

    assert len(pauses) == room.statistics()["pauses"] == 2


async def test_a_record_that_finds_no_room_is_written_when_there_is_some_and_is_no_crash(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    class FullWriter(JournalWriter):
        failures = 4

        def append(self, *args: Any, **fields: Any) -> None:
            self.failures -= 1
            if self.failures >= 0:
                raise JournalFullError(HERE, "no space left on device")
            super().append(*args, **fields)

    with FullWriter(tmp_path) as writer, capture_logs() as logs:
        recorder = Recorder(writer, room=Room(HERE, 0, free_bytes=Disk(0).look))
        post = Post(RunId("r"), recorder=recorder)
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, EchoActor(), ECHO, post)
            echo = post.ref(ECHO, sender=ActorName("asker"))
            answer = await echo.ask(OUTCOME, timeout_s=60)
            nursery.cancel_scope.cancel()

    assert answer == OUTCOME
    kinds = [(entry.actor, entry.kind) for entry in read_journal(tmp_path)]
    assert kinds == [
        (ECHO, "started"),
        (ActorName("asker"), "said"),
        (ECHO, "heard"),
        (ECHO, "answered"),
        (ActorName("asker"), "received"),
    ]
    assert [log["event"] for log in logs] == ["run.paused", "run.resumed"]


async def test_a_small_file_that_finds_no_room_is_written_when_there_is_some(
    autojump_clock: trio.testing.MockClock,
) -> None:
    room = Room(HERE, 0, free_bytes=Disk(0).look)
    errors = [OSError(errno.ENOSPC, "no space left on device"), None]

    def write() -> None:
        if error := errors.pop(0):
            raise error

    with capture_logs():
        await room.keep(write)
    errors.append(PermissionError(errno.EACCES, "not yours"))

    with pytest.raises(PermissionError):
        await room.keep(write)
