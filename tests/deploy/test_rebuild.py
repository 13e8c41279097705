"""A search is rebuilt from its journal exactly, wherever that ends, and goes on to the same end."""

from __future__ import annotations

import bisect
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from envs_node.actors.mailbox import ActorCrashedError
from envs_node.deploy.journals import read_pasts
from envs_node.deploy.parts import make_search
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.journal import JournalWriter, read_journal, read_live
from envs_node.messages.journal_archive import compact_journal
from envs_node.messages.search import (
    BranchCost,
    Idle,
    LeafReached,
    LeaseLapsed,
    NodeReached,
    Progress,
    ProgressWanted,
    Renewed,
    ReplayCheck,
    Tick,
    WorkWanted,
)
from envs_node.policy.task_search import TaskSearch
from tests.deploy.search_run import SEARCH, SETTINGS, WORKER, FakeLedger, SearchRun
from tests.fakes import fake_task


class Recorded(msgspec.Struct):
    """A run that came to its end, and what it knew after each message."""

    journal: bytes
    states: dict[int, Any]
    """By bytes of journal."""
    ledgers: dict[int, dict[tuple[str, ...], bool]]
    kept: dict[tuple[str, ...], bool]
    ends: list[int]
    """Where each record ends."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return trio.run(_record, tmp_path_factory.mktemp("run"))


def _brief() -> TaskSearch:
    settings = msgspec.structs.replace(SETTINGS, leaves_task_max=1, successes_task_max=1)
    return make_search(fake_task(), settings)


async def _record(folder: Path, make: Callable[[], TaskSearch] | None = None) -> Recorded:
    run = SearchRun(folder / "whole", FakeLedger(), make=make)
    segment = run.folder / "000000.journal"
    states: dict[int, Any] = {}
    ledgers: dict[int, dict[tuple[str, ...], bool]] = {}

    def note_ledger() -> None:
        ledgers[segment.stat().st_size] = dict(run.ledger.kept)

    def note() -> None:
        states[segment.stat().st_size] = run.state()
        note_ledger()

    run.ledger.on_kept = note_ledger  # a journal with the answer never meets a ledger without it
    async with run.open():
        note()
        await run.finish(note)
    data = segment.read_bytes()
    ends = [16]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 8 + int.from_bytes(data[ends[-1] : ends[-1] + 4], "little"))
    return Recorded(data, states, ledgers, run.ledger.kept, ends)


def _cut(recorded: Recorded, folder: Path, length: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "000000.journal").write_bytes(recorded.journal[:length])
    return folder


def test_cut_at_every_byte_a_real_journal_is_its_last_whole_record(
    tmp_path: Path,
) -> None:
    recorded = trio.run(_record, tmp_path, _brief)
    whole = list(read_live(_cut(recorded, tmp_path / "cut", len(recorded.journal))))
    path = tmp_path / "cut" / "000000.journal"

    assert len(whole) > 20
    for length in range(len(recorded.journal), -1, -1):
        os.truncate(path, length)
        read = list(read_live(path.parent))
        count = bisect.bisect_right(recorded.ends, length, lo=1) - 1
        assert (len(read), read[-1:]) == (count, whole[:count][-1:]), f"cut at {length}"


async def test_cut_at_every_record_it_is_rebuilt_as_it_was(
    recorded: Recorded, tmp_path: Path
) -> None:
    compared = 0
    for end in recorded.ends[2:]:
        # What was heard and not yet answered is heard again, to its end.
        state = recorded.states[min(noted for noted in recorded.states if noted >= end)]
        if state["_is_outcome_kept"]:
            break
        folder = _cut(recorded, tmp_path / "cut", end + 3)
        run = SearchRun(folder, FakeLedger())
        async with run.open():
            assert run.state() == state, f"cut at {end}"
        compared += 1

    assert compared > 20


async def test_cut_anywhere_it_goes_on_to_the_same_ledger(
    recorded: Recorded, tmp_path: Path
) -> None:
    cuts = sorted(Random(7).sample(range(len(recorded.journal)), 25))
    for length in cuts:
        known = max((end for end in recorded.ledgers if end <= length), default=0)
        ahead = min((end for end in recorded.ledgers if end > length), default=known)
        for at in {known, ahead}:  # what the ledger did last may have been written down or not
            folder = _cut(recorded, tmp_path / "cut", length)
            run = SearchRun(folder, FakeLedger(recorded.ledgers.get(at)))
            async with run.open(clock_ns=10**12):
                await run.finish()
            assert run.ledger.kept == recorded.kept, f"cut at {length}"


async def test_an_ended_search_is_one_record_and_refuses_what_still_comes(
    recorded: Recorded, tmp_path: Path
) -> None:
    folder = _cut(recorded, tmp_path / "cut", len(recorded.journal))
    (record,) = read_pasts(folder)[SEARCH]
    assert record.kind == "ended"
    report = LeafReached(
        branch_id=BranchId("note-000#1"),
        task_id=TaskId("note-000"),
        lease=1,
        kind="explore",
        reason="finish",
        verdict=None,
        steps=(),
        cost=BranchCost(),
        replay=ReplayCheck(),
    )

    run = SearchRun(folder, FakeLedger())
    async with run.open():
        before = await run.say(ProgressWanted())
        assert isinstance(await run.say(report), LeaseLapsed)
        assert await run.say(WorkWanted(worker=WORKER)) == Idle(retry_ms=0, is_over=True)
        after = await run.say(ProgressWanted())
    again = SearchRun(folder, FakeLedger())
    async with again.open():
        rebuilt = await again.say(ProgressWanted())

    assert isinstance(before, Progress)
    assert isinstance(after, Progress)
    assert (before.is_over, before.tasks[0].state) == (True, "solved")
    assert after.tasks[0].refused == before.tasks[0].refused + 1
    assert rebuilt == after
    assert run.ledger.kept == {}, "the ledger heard it all before"


async def test_the_archive_of_an_ended_search_still_has_all_it_heard(
    recorded: Recorded, tmp_path: Path
) -> None:
    folder = _cut(recorded, tmp_path / "cut", len(recorded.journal))
    entries = list(read_journal(folder))
    with JournalWriter(folder) as writer:
        writer.rotate()
    done = compact_journal(folder, 1, lambda _: False)

    assert list(read_journal(folder)) == entries
    assert {record.kind for record in read_live(folder)} == {"ended"}
    assert done.live_bytes < done.whole_bytes / 10
    assert done.archive_bytes < done.whole_bytes / 5


class PoisonedSearch(TaskSearch):
    """A search that crashes over one node."""

    crashes = 0

    def node_reached(self, report: NodeReached, now_ns: int) -> Renewed | LeaseLapsed:
        if report.depth == 1:
            PoisonedSearch.crashes += 1
            raise ZeroDivisionError("poison")
        return super().node_reached(report, now_ns)


def _poisoned() -> TaskSearch:
    sound = make_search(fake_task(), SETTINGS)
    sound.__class__ = PoisonedSearch
    return sound


async def test_a_message_that_crashes_a_search_is_not_heard_again(tmp_path: Path) -> None:
    PoisonedSearch.crashes = 0
    run = SearchRun(tmp_path / "j", FakeLedger(), make=_poisoned)
    with pytest.RaisesGroup(ZeroDivisionError, ActorCrashedError, flatten_subgroups=True):
        async with run.open():
            await run.finish()
    assert PoisonedSearch.crashes == 1

    with capture_logs() as logs:
        again = SearchRun(tmp_path / "j", FakeLedger(), make=_poisoned)
        async with again.open():
            assert await again.say(Tick()) is None

    assert PoisonedSearch.crashes == 1
    assert [log["event"] for log in logs] == ["message.skipped"]


async def test_what_crashes_a_search_while_it_is_rebuilt_is_not_heard_again(
    recorded: Recorded, tmp_path: Path
) -> None:
    PoisonedSearch.crashes = 0
    for end in recorded.ends[1:]:  # up to the first node below the start that was heard
        folder = _cut(recorded, tmp_path / "cut", end)
        latest = list(read_journal(folder))[-1]
        message = latest.envelope.message if latest.envelope else None
        if latest.kind == "heard" and isinstance(message, NodeReached) and message.depth == 1:
            break

    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with SearchRun(folder, FakeLedger(), make=_poisoned).open():
            pass
    run = SearchRun(folder, FakeLedger(), make=_poisoned)
    async with run.open():
        assert isinstance(await run.say(ProgressWanted()), Progress)

    assert PoisonedSearch.crashes == 1
