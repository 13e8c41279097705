"""Closed segments are archived whole and cut to what is live; killed anywhere, nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.base import ActorName
from envs_node.messages.journal import (
    Entry,
    JournalError,
    JournalWriter,
    Record,
    read_journal,
    read_live,
)
from envs_node.messages.journal_archive import compact_journal
from envs_node.messages.journal_format import archive_path, frame, header, segment_path
from tests.messages.test_journal import envelope

DONE, LIVE = ActorName("search/done"), ActorName("search/live")


def write(folder: Path) -> list[Entry]:
    with JournalWriter(folder, segment_bytes=1500) as writer:
        for number in range(20):
            for actor in (DONE, LIVE):
                writer.append(actor, "heard", envelope(number))
        writer.append(DONE, "ended", envelope(99))
        for number in range(20, 30):
            writer.append(LIVE, "heard", envelope(number))
        writer.rotate()
    return list(read_journal(folder))


def last(folder: Path) -> int:
    return int(max(path.name for path in folder.glob("*.journal"))[:6])


def is_live(actor: ActorName) -> bool:
    return actor == LIVE


def live_part(records: list[Record]) -> list[tuple[str, str, bytes]]:
    return [
        (record.actor, record.kind, bytes(record.envelope))
        for record in records
        if record.actor == LIVE or record.kind == "ended"
    ]


def test_the_whole_is_read_in_order_and_only_what_is_live_by_those_who_go_on(
    tmp_path: Path,
) -> None:
    entries = write(tmp_path)
    needed = live_part(list(read_live(tmp_path)))

    done = compact_journal(tmp_path, last(tmp_path), is_live)

    assert done.segments > 2
    assert list(read_journal(tmp_path)) == entries
    left = list(read_live(tmp_path))
    assert live_part(left) == needed
    assert all(record.actor == LIVE or record.kind == "ended" for record in left)
    assert compact_journal(tmp_path, last(tmp_path), is_live).segments == 0


def test_when_the_last_actor_has_ended_only_archives_are_left(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, segment_bytes=500) as writer:
        for number in range(20):
            writer.append(DONE, "heard", envelope(number))
        writer.rotate()
        entries = list(read_journal(tmp_path))
        compact_journal(tmp_path, writer.statistics()["segment"], lambda _: False)

        assert [path.name for path in tmp_path.glob("*.journal")] == [
            f"{writer.statistics()['segment']:06d}.journal"
        ]
        writer.append(LIVE, "started")
    assert list(read_journal(tmp_path)) == [*entries, Entry(actor=LIVE, kind="started")]


def _steps(folder: Path) -> int:
    write(folder)
    steps: list[str] = []
    compact_journal(folder, last(folder), is_live, on_step=steps.append)
    return len(steps)


def _killed_at(step: int) -> Callable[[str], None]:
    left = [step]

    def count(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def test_killed_at_any_step_both_readings_are_right_and_it_goes_on(tmp_path: Path) -> None:
    steps = _steps(tmp_path / "count")
    assert steps > 10

    for step in range(steps):
        folder = tmp_path / str(step)
        entries = write(folder)
        needed = live_part(list(read_live(folder)))
        child = os.fork()
        if child == 0:
            compact_journal(folder, last(folder), is_live, on_step=_killed_at(step))
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

        assert list(read_journal(folder)) == entries
        assert live_part(list(read_live(folder))) == needed
        JournalWriter(folder).close()
        assert not list(folder.glob("*.partial"))
        compact_journal(folder, last(folder), is_live)
        assert list(read_journal(folder)) == entries
        assert live_part(list(read_live(folder))) == needed


def test_a_damaged_segment_is_left_as_it_is(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "000001.journal"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)

    with pytest.raises(JournalError, match="damaged at byte"):
        compact_journal(tmp_path, last(tmp_path), is_live)

    assert path.read_bytes() == data


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "000001.journal").unlink()

    with pytest.raises(JournalError, match=r"000001\.journal is missing"):
        list(read_journal(tmp_path))


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Entry], bytes]:
    folder = tmp_path_factory.mktemp("j")
    entries = write(folder)
    compact_journal(folder, last(folder), is_live)
    return folder, entries, (folder / "000001.journal.zst").read_bytes()


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_archive_that_is_cut_or_changed_is_damaged_and_never_shorter(
    archived: tuple[Path, list[Entry], bytes], data: st.DataObject
) -> None:
    folder, entries, whole = archived
    path = folder / "000001.journal.zst"
    raw = bytearray(whole)
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)

    read: list[Entry] = []
    try:
        read.extend(read_journal(folder))
    except JournalError:
        pass
    else:
        assert read == entries, "what could still be read is what was written"
    assert read == entries[: len(read)]


def test_nothing_is_appended_to_what_is_left_of_an_archived_segment(tmp_path: Path) -> None:
    """Found by fuzzing: the open segment was lost, and what came next lay where nobody reads."""
    write(tmp_path)
    compact_journal(tmp_path, last(tmp_path), is_live)
    segment_path(tmp_path, last(tmp_path)).unlink()
    assert archive_path(tmp_path, last(tmp_path)).exists()
    before = list(read_journal(tmp_path))

    with JournalWriter(tmp_path) as writer:
        writer.append(LIVE, "ended")

    assert list(read_journal(tmp_path)) == [*before, Entry(actor=LIVE, kind="ended")]


def test_an_archive_has_no_torn_tail(tmp_path: Path) -> None:
    """Found by fuzzing: one whose last record is cut short was taken for the open segment."""
    with JournalWriter(tmp_path) as writer:
        writer.append(LIVE, "started")
    whole = segment_path(tmp_path, 0).read_bytes()
    archive_path(tmp_path, 0).write_bytes(zstandard.compress(whole[:-3]))
    segment_path(tmp_path, 0).unlink()

    with pytest.raises(JournalError, match="a record is cut short"):
        list(read_journal(tmp_path))


def test_a_record_that_holds_no_message_of_ours_is_named(tmp_path: Path) -> None:
    """Found by fuzzing: rebuilding from it ended in an error that was not the journal's."""
    body = msgspec.msgpack.encode([LIVE, "heard", -1, "", {"type": "Unknown"}])
    segment_path(tmp_path, 0).write_bytes(header(0) + frame(body))

    (record,) = read_live(tmp_path)

    with pytest.raises(JournalError, match="a record of search/live holds no message"):
        record.entry()
