"""A run's journal replays to the same decisions; one changed byte is found and named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.replay import ReplayError, replay_run
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.desktop import Configure, Reset
from envs_node.messages.journal import JournalError, JournalWriter, read_journal
from envs_node.messages.propose import Proposed
from envs_node.messages.search import Assign
from tests.deploy.fake_node import TASKS, FakeNode


@pytest.fixture
async def run(tmp_path: Path) -> RunFolder:
    """A run that came to its end."""
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        _, folder = await node.finish("r-1")
    return folder


def _change_byte(folder: RunFolder, old: bytes, new: bytes, *, after: bytes = b"") -> None:
    """Alter the journal in place where `old` follows the first `after`; no checksum is mended."""
    (segment,) = folder.journal.glob("*.journal")
    data = segment.read_bytes()
    place = data.index(old, data.index(after))
    assert len(old) == len(new)
    segment.write_bytes(data[:place] + new + data[place + len(old) :])


async def test_a_whole_run_finds_and_keeps_each_success_of_each_task(tmp_path: Path) -> None:
    # With more desktops a branch under way may find one more than is asked for.
    node = FakeNode(tmp_path, desktops=1)
    async with node.open():
        await node.start("r-1")
        progress, folder = await node.finish("r-1")

    assert [task.state for task in progress.tasks] == ["solved", "solved"]
    assert [task.distinct for task in progress.tasks] == [2, 2]
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        stats = store.stats()
        kept = store.trajectories(certified_only=True)
        frames = {s.observation.signature.frame for t in kept for s in t.steps}
        assert all(store.read_blob(frame) is not None for frame in frames)
    assert (stats.trajectories, stats.certified, stats.tasks) == (4, 4, 2)
    assert (folder.path / "progress.json").is_file()


async def test_replaying_a_run_makes_every_decision_again(run: RunFolder) -> None:
    report = await replay_run(run)

    assert report.differences == ()
    assert (report.actors, report.damaged) == (4, 0)
    entries = list(read_journal(run.journal))
    assert report.heard == sum(entry.kind == "heard" for entry in entries)
    assert report.decisions == sum(entry.kind in ("said", "answered") for entry in entries)


async def test_a_journal_from_before_starts_and_prefixes_were_told_replays(run: RunFolder) -> None:
    entries = list(read_journal(run.journal))
    later = {Assign: {"start": None}, Configure: {"branch": ""}, Reset: {"prefix": None}}
    for segment in run.journal.glob("*.journal"):
        segment.unlink()
    cut = 0
    with JournalWriter(run.journal) as writer:
        for entry in entries:
            envelope = entry.envelope
            if envelope is not None and (fields := later.get(type(envelope.message))):
                message = msgspec.structs.replace(envelope.message, **fields)
                cut += message != envelope.message
                envelope = msgspec.structs.replace(envelope, message=message)
            writer.append(entry.actor, entry.kind, envelope, index=entry.index, error=entry.error)

    report = await replay_run(run)

    assert cut > 0
    assert report.differences == ()


async def test_one_actor_can_be_replayed_alone(run: RunFolder) -> None:
    report = await replay_run(run, f"search/{TASKS[0].id}")

    assert (report.actors, report.differences) == (1, ())
    assert report.decisions > 5


async def test_an_actor_that_is_not_in_the_journal_is_refused_by_name(run: RunFolder) -> None:
    with pytest.raises(ReplayError, match=r"no actor search/x in .* there are: replay/fake-0"):
        await replay_run(run, "search/x")


async def test_one_byte_of_one_proposal_names_the_first_decision_that_differs(
    run: RunFolder,
) -> None:
    proposals = [
        entry.actor
        for entry in read_journal(run.journal)
        if entry.kind == "received"
        and entry.envelope is not None
        and isinstance(entry.envelope.message, Proposed)
    ]
    _change_byte(run, b"hi", b"ha", after=b"Proposed")

    report = await replay_run(run)

    assert report.damaged == 1
    (difference,) = report.differences
    assert difference.actor == proposals[0]
    assert difference.decision > 0
    assert difference.message == "NodeReached"
    # The likeliest sample of the largest bucket is another action now, so the next is shown.
    assert difference.where == (
        "NodeReached.buckets[0].proposal.log_prob: recorded -1.0, now -1.125"
    )


async def test_a_changed_leaf_is_found_by_the_search_that_heard_it(run: RunFolder) -> None:
    (segment,) = run.journal.glob("*.journal")
    data = segment.read_bytes()
    heard = [
        e
        for e in read_journal(run.journal)
        if e.kind == "heard" and e.envelope and type(e.envelope.message).__name__ == "NodeReached"
    ]
    assert heard
    place = data.index(b"NodeReached", data.index(b"heard"))
    _change_byte(run, b"type hi", b"type ho", after=data[place : place + 60])

    report = await replay_run(run)

    assert report.damaged == 1
    assert report.differences


async def test_a_run_without_a_journal_has_nothing_to_replay(run: RunFolder) -> None:
    for segment in run.journal.iterdir():
        segment.unlink()

    with pytest.raises(JournalError, match="holds no journal"):
        await replay_run(run)


async def test_a_journal_damaged_beyond_reading_names_segment_and_byte(run: RunFolder) -> None:
    _change_byte(run, b"NodeReached", b"NodeReachex")

    with pytest.raises(JournalError, match=r"000000\.journal is damaged at byte \d+"):
        await replay_run(run)


async def test_a_journal_of_another_run_is_refused(run: RunFolder, tmp_path: Path) -> None:
    tasks = tmp_path / "r-1" / "tasks.msgpack"
    tasks.write_bytes(tasks.read_bytes().replace(b"note-001", b"note-00x"))

    with pytest.raises(ReplayError, match="an actor search/note-001, of which this run"):
        await replay_run(run)
