"""A journal is gone through entry by entry, and an actor's state shown at any of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from envs_node.deploy.replay import RecordedRun, ReplayError, run_at_once
from envs_node.deploy.run_folder import RunFolder
from envs_node.deploy.stepping import Stepped, step_through
from envs_node.messages.base import ActorName
from envs_node.messages.desktop import Acted
from envs_node.messages.journal import Entry, JournalWriter, read_journal
from envs_node.messages.journal_archive import compact_journal
from envs_node.messages.propose import Proposed
from envs_node.policy.fingerprint import fingerprint
from tests.deploy.fake_node import TASKS, FakeNode
from tests.fakes import click

SEARCH = f"search/{TASKS[0].id}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that came to its end; not to be changed."""
    root = tmp_path_factory.mktemp("runs")

    async def whole_run() -> RunFolder:
        node = FakeNode(root)
        async with node.open():
            await node.start("r-1")
            _, folder = await node.finish("r-1")
        return folder

    return trio.run(whole_run)


def step(folder: RunFolder, actor: str = "", until: int | None = None) -> Stepped:
    return run_at_once(step_through, RecordedRun(folder), actor, until)


def entries(folder: RunFolder) -> list[Entry]:
    return list(read_journal(folder.journal))


def place_of(folder: RunFolder, kind: str, message: type) -> int:
    """The last entry of this kind that holds such a message."""
    found = [
        number
        for number, entry in enumerate(entries(folder))
        if entry.kind == kind and entry.envelope and isinstance(entry.envelope.message, message)
    ]
    return found[-1]


def test_every_entry_of_an_actor_is_a_step_under_its_place_in_the_journal(
    folder: RunFolder,
) -> None:
    places = [number for number, e in enumerate(entries(folder)) if e.actor == SEARCH]

    stepped = step(folder, SEARCH)

    assert [s.sequence for s in stepped.steps] == places
    assert {s.outcome for s in stepped.steps if s.kind in ("said", "answered")} == {"equal"}
    assert stepped.until == places[-1]
    assert stepped.is_sound


def test_the_state_of_a_search_shows_its_progress_and_its_tree(folder: RunFolder) -> None:
    stepped = step(folder, SEARCH)

    assert stepped.state[0].startswith(f"search of {TASKS[0].id}: state solved, ")
    assert "certified 2, distinct 2" in stepped.state[0]
    lines = [line.strip() for line in stepped.state]
    assert "*4/8 type hi" in lines
    assert f"*3/8 {fingerprint(click('Menu'))}" in lines
    assert any(line.startswith("=> success 1, finish  (note-000#") for line in lines)
    assert "lent: nothing" in lines


def test_stopped_early_a_search_knows_less_and_has_lent_its_branch(folder: RunFolder) -> None:
    first = next(
        n for n, e in enumerate(entries(folder)) if e.actor == SEARCH and e.kind == "heard"
    )

    before, after = step(folder, SEARCH, first), step(folder, SEARCH, first + 1)

    assert "lent: nothing" in before.state
    assert after.steps[-1].kind == "answered"
    assert "lent note-000#1: - -> work/fake-0" in after.steps[-1].changes
    assert "lent: 1" in after.state


def test_the_actor_of_an_entry_is_the_one_that_is_shown(folder: RunFolder) -> None:
    place = place_of(folder, "received", Acted)

    stepped = step(folder, until=place)

    assert (stepped.actor, stepped.until) == (entries(folder)[place].actor, place)
    assert stepped.steps[-1].message == f"Acted step {len(stepped.state) - 2}"
    assert stepped.state[0].startswith("branch note-00")
    assert stepped.state[-1].strip().startswith(f"{len(stepped.state) - 1}. ")


def test_until_an_entry_of_another_actor_an_actor_is_where_it_was_then(folder: RunFolder) -> None:
    place = place_of(folder, "received", Acted)

    stepped = step(folder, SEARCH, place)

    mine = [n for n, e in enumerate(entries(folder)) if e.actor == SEARCH and n <= place]
    assert stepped.until == mine[-1] < place


def test_what_is_not_in_the_journal_is_refused_with_the_range(folder: RunFolder) -> None:
    end = len(entries(folder)) - 1

    with pytest.raises(ReplayError, match=rf"no entry {end + 1} in .*: they are 0 to {end}"):
        step(folder, until=end + 1)
    with pytest.raises(ReplayError, match=r"no entry -1 in"):
        step(folder, until=-1)
    with pytest.raises(ReplayError, match=r"no actor search/x in .* there are: replay/fake-0"):
        step(folder, "search/x")
    with pytest.raises(ReplayError, match=r"name one of the actors, .*: replay/fake-0, "):
        step(folder)


def test_before_its_first_entry_an_actor_has_no_state(folder: RunFolder) -> None:
    last = next(reversed(RecordedRun(folder).histories))

    with pytest.raises(ReplayError, match=rf"{last} comes into the journal at entry \d+, after 0"):
        step(folder, last, 0)


def test_the_step_that_differs_is_the_last_and_names_the_field(
    folder: RunFolder, tmp_path: Path
) -> None:
    changed = _copy(folder, tmp_path, b"hi", b"ha", after=b"Proposed")
    heard = next(
        entry.actor
        for entry in entries(folder)
        if entry.kind == "received" and entry.envelope
        if isinstance(entry.envelope.message, Proposed)
    )

    stepped = step(changed, heard)

    assert not stepped.is_sound
    assert [s.is_damaged for s in stepped.steps].count(True) == 1
    assert [s.outcome for s in stepped.steps].count("differs") == 1
    (last,) = [s for s in stepped.steps if s.outcome == "differs"]
    assert last == stepped.steps[-1]
    assert last.where == "NodeReached.buckets[0].proposal.log_prob: recorded -1.0, now -1.125"
    assert last.message.startswith("NodeReached")
    assert last.now.startswith("NodeReached")


def test_archived_entries_keep_their_numbers(folder: RunFolder, tmp_path: Path) -> None:
    packed = _copy(folder, tmp_path, b"", b"")
    with JournalWriter(packed.journal) as writer:
        writer.rotate()
    compact_journal(packed.journal, 1, lambda _: False)
    assert list(packed.journal.glob("*.zst"))

    assert step(packed, SEARCH).steps == step(folder, SEARCH).steps


def test_a_search_that_had_ended_keeps_its_tree_in_the_lives_after(
    folder: RunFolder, tmp_path: Path
) -> None:
    longer = _copy(folder, tmp_path, b"", b"")
    with JournalWriter(longer.journal) as writer:
        writer.append(ActorName(SEARCH), "started")

    before, after = step(folder, SEARCH), step(longer, SEARCH)

    assert after.steps[-1].kind == "started"
    assert after.state == before.state


def test_no_replay_waits_in_real_time() -> None:
    began = time.monotonic()

    run_at_once(trio.sleep, 3600)

    assert time.monotonic() - began < 5


def _copy(
    folder: RunFolder, path: Path, old: bytes, new: bytes, *, after: bytes = b""
) -> RunFolder:
    """A copy of a run with one piece of its journal altered, where `old` follows `after`."""
    copied = RunFolder(path / folder.run)
    for source in folder.path.rglob("*"):
        target = copied.path / source.relative_to(folder.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            target.write_bytes(source.read_bytes())
    (segment,) = copied.journal.glob("*.journal")
    data = segment.read_bytes()
    place = data.index(old, data.index(after))
    segment.write_bytes(data[:place] + new + data[place + len(old) :])
    return copied
