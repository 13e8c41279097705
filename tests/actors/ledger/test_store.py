"""The store keeps each distinct success once, and says plainly what it cannot do."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.errors import (
    BlobMismatchError,
    LedgerFullError,
    LedgerMissingError,
    LedgerReadOnlyError,
    LedgerSchemaError,
    NotALedgerError,
)
from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import BLOBS_WANTED_MAX, TaskOutcome, Trajectory

MakeTrajectory = Callable[..., Trajectory]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _outcome(task: str, *, leaves: int, successes: int) -> TaskOutcome:
    return TaskOutcome(
        task_id=TaskId(task),
        template=task[:-4],
        split="train",
        leaves=leaves,
        successes=successes,
        state="solved",
    )


def test_what_was_admitted_comes_back_as_it_was(tmp_path, make_trajectory: MakeTrajectory):
    one, two = make_trajectory("click a", "type b"), make_trajectory("click c")
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        assert [store.admit(one), store.admit(two)] == [True, True]

    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as reader:
        assert reader.trajectories(certified_only=True) == (one, two)


def test_a_path_is_admitted_once_also_across_reopening(tmp_path, make_trajectory: MakeTrajectory):
    for expected in (True, False, False):
        with LedgerStore(tmp_path / "ledger.sqlite") as store:
            assert store.admit(make_trajectory("click a")) is expected


def test_equal_paths_of_two_tasks_are_two_trajectories(tmp_path, make_trajectory: MakeTrajectory):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a", task="append-line-000"))

        assert store.admit(make_trajectory("click a", task="append-line-001"))


def test_a_certified_success_takes_the_place_of_an_uncertified_one(
    tmp_path, make_trajectory: MakeTrajectory
):
    certified = make_trajectory("click a")
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a", is_certified=False))
        assert store.trajectories(certified_only=True) == ()

        assert store.admit(certified) is False
        assert store.admit(make_trajectory("click a", is_certified=False)) is False

        assert store.trajectories(certified_only=True) == (certified,)
        assert store.stats().steps == 1


def test_an_id_of_another_path_is_refused(tmp_path, make_trajectory: MakeTrajectory):
    one = make_trajectory("click a")
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(one)

        with pytest.raises(ValueError, match="names another path"):
            store.admit(msgspec.structs.replace(one, path=("click b",)))
        assert store.stats().trajectories == 1


def test_the_latest_outcome_sets_the_success_rate(tmp_path, make_trajectory: MakeTrajectory):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a"))
        store.keep_outcome(_outcome("append-line-000", leaves=8, successes=1))
        store.keep_outcome(_outcome("append-line-000", leaves=10, successes=3))

        (found,) = store.trajectories(certified_only=True)
        assert found.success_rate == 0.3
        assert store.outcomes() == (_outcome("append-line-000", leaves=10, successes=3),)


def test_shared_steps_are_counted_once(tmp_path, make_trajectory: MakeTrajectory):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a", "type b", "key enter"))
        store.admit(make_trajectory("click a", "type b", "click ok"))

        stats = store.stats()
    assert (stats.steps, stats.distinct_steps) == (6, 4)
    assert (stats.trajectories, stats.certified, stats.tasks, stats.templates) == (2, 2, 1, 1)


def test_a_screenshot_is_one_file_however_often_it_is_stored(tmp_path):
    digest = _sha256(b"pixels")
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        kept = [store.store_blob("frame-1", digest, "png", b"pixels") for _ in range(3)]
        kept.append(store.store_blob("frame-2", digest, "png", b"pixels"))

        assert kept == [digest] * 4
        assert store.stats().blobs == 2
        assert store.read_blob("frame-2") == b"pixels"
        assert store.read_blob("frame-3") is None
    files = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
    assert files == [tmp_path / "blobs" / digest[:2] / f"{digest[2:]}.png"]


def test_a_hundred_branches_that_share_their_opening_keep_its_pictures_once(tmp_path):
    """Row F9: thirty steps in common, replayed by each, and one of its own."""
    picture = bytes(50_000)
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        for branch in range(100):
            for frame in (*(f"shared-{step}" for step in range(30)), f"own-{branch}"):
                data = frame.encode() + picture
                store.store_blob(frame, _sha256(data), "png", data)

        assert store.stats().blobs == 130
    files = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
    assert len(files) == 130
    assert sum(file.stat().st_size for file in files) < 130 * 51_000


def test_what_is_stored_already_costs_no_write(tmp_path):
    path, digest = tmp_path / "ledger.sqlite", _sha256(b"one")
    with LedgerStore(path) as store, closing(sqlite3.connect(path)) as onlooker:
        store.store_blob("frame", digest, "png", b"one")
        before = _changes(onlooker), sorted(tmp_path.rglob("*"))

        store.store_blob("frame", digest, "png", b"one")
        store.store_blob("frame", _sha256(b"two"), "png", b"two")
        store.lacking(["frame", "another"])

        assert (_changes(onlooker), sorted(tmp_path.rglob("*"))) == before


def _changes(onlooker: sqlite3.Connection) -> tuple[int, ...]:
    """A number that rises when another connection commits a change."""
    row: tuple[int, ...] = onlooker.execute("PRAGMA data_version").fetchone()
    return row


def test_what_is_lacking_is_said_in_order_and_once(tmp_path):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.store_blob("b", _sha256(b"b"), "png", b"b")

        assert store.lacking(["c", "b", "a", "c"]) == ("c", "a")
        assert store.lacking([]) == ()
        assert store.lacking([f"x{n}" for n in range(BLOBS_WANTED_MAX)] + ["b"])[-1] == "x127"


def test_what_is_lacking_is_found_by_an_index(tmp_path):
    with LedgerStore(tmp_path / "ledger.sqlite"):
        pass

    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        query = "EXPLAIN QUERY PLAN SELECT size_bytes FROM blobs WHERE name IN (?, ?)"
        (plan,) = connection.execute(query, ("a", "b")).fetchall()
    assert plan[3].startswith("SEARCH blobs USING INDEX")


def test_a_picture_whose_file_is_gone_is_lacking_and_mended(tmp_path):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.store_blob("frame", _sha256(b"one"), "png", b"one")
        lost = store.blob_path("frame")
        assert lost is not None
        lost.unlink()
        assert store.lacking(["frame"]) == ("frame",)

        store.store_blob("frame", _sha256(b"two"), "png", b"two")

        assert store.lacking(["frame"]) == ()
        assert store.read_blob("frame") == b"two"


def test_another_encoding_of_a_known_frame_leaves_the_first(tmp_path):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.store_blob("frame", _sha256(b"one"), "png", b"one")

        assert store.store_blob("frame", _sha256(b"two"), "png", b"two") == _sha256(b"one")
        assert store.read_blob("frame") == b"one"


def test_a_blob_of_another_digest_is_refused(tmp_path):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        with pytest.raises(BlobMismatchError, match="sha256"):
            store.store_blob("frame", _sha256(b"other"), "png", b"pixels")

        assert store.stats().blobs == 0
    assert not (tmp_path / "blobs").exists()


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "AB" * 32, "ab" * 31])
def test_a_digest_that_could_name_another_file_is_refused(tmp_path, digest: str):
    with (
        LedgerStore(tmp_path / "ledger.sqlite") as store,
        pytest.raises(ValueError, match="sha256"),
    ):
        store.store_blob("frame", digest, "png", b"pixels")


def test_two_that_create_the_ledger_at_once_share_it(tmp_path, make_trajectory: MakeTrajectory):
    def admit_all(start: int) -> int:
        with LedgerStore(tmp_path / "ledger.sqlite") as store:
            return sum(store.admit(make_trajectory(f"click {i}")) for i in range(start, 10))

    with ThreadPoolExecutor(4) as pool:
        admitted = sum(pool.map(admit_all, (0, 1, 2, 3)))

    assert admitted == 10


def test_a_reader_sees_what_a_writer_admits_meanwhile(tmp_path, make_trajectory: MakeTrajectory):
    with (
        LedgerStore(tmp_path / "ledger.sqlite") as writer,
        LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as reader,
    ):
        before = reader.stats().trajectories
        writer.admit(make_trajectory("click a"))

        assert (before, reader.stats().trajectories) == (0, 1)


def test_reading_a_ledger_that_is_not_there_makes_none(tmp_path):
    with pytest.raises(LedgerMissingError, match="no such ledger"):
        LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_read_only", [True, False])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, is_read_only: bool):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, this is not a database. " * 200)

    with pytest.raises(NotALedgerError, match=r"notes.txt: not a ledger"):
        LedgerStore(path, is_read_only=is_read_only)

    assert path.read_text().startswith("Dear diary")


def test_a_database_of_something_else_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.commit()
    connection.close()

    with pytest.raises(NotALedgerError, match="no ledger's tables"):
        LedgerStore(tmp_path / "other.sqlite")


def test_a_newer_schema_is_refused_by_number(tmp_path):
    LedgerStore(tmp_path / "ledger.sqlite").close()
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.commit()
    connection.close()

    with pytest.raises(LedgerSchemaError, match="schema 99, but at most 1"):
        LedgerStore(tmp_path / "ledger.sqlite")


def test_a_reader_writes_nothing(tmp_path, make_trajectory: MakeTrajectory):
    LedgerStore(tmp_path / "ledger.sqlite").close()
    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store:
        with pytest.raises(LedgerReadOnlyError, match="may not be written"):
            store.admit(make_trajectory("click a"))
        with pytest.raises(LedgerReadOnlyError):
            store.store_blob("frame", _sha256(b"x"), "png", b"x")


def test_too_little_free_disk_pauses_and_names_the_folder(
    tmp_path, make_trajectory: MakeTrajectory
):
    with LedgerStore(tmp_path / "ledger.sqlite", free_bytes_min=2**60) as store:
        with pytest.raises(LedgerFullError, match=str(tmp_path)):
            store.admit(make_trajectory("click a"))
        assert store.stats().trajectories == 0


def test_a_damaged_column_is_said_to_be_damaged(tmp_path: Path, make_trajectory: MakeTrajectory):
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.admit(make_trajectory("click a"))
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("UPDATE steps SET data = x'00'")
    connection.commit()
    connection.close()

    with (
        LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store,
        pytest.raises(NotALedgerError, match="trajectory"),
    ):
        store.trajectories(certified_only=False)
