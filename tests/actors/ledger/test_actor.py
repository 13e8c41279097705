"""The actor answers each message, twice alike, and crashes where it cannot keep its word."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

import pytest
import trio
from structlog.testing import capture_logs

from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.ledger.errors import LedgerFullError, NotALedgerError
from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.room import Room
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import (
    Admit,
    Admitted,
    AlreadyKnown,
    BlobRefused,
    BlobsLacking,
    BlobStored,
    BlobsWanted,
    LedgerStats,
    OutcomeKept,
    Query,
    StoreBlob,
    TaskOutcome,
    Trajectory,
)

MakeTrajectory = Callable[..., Trajectory]


class StuckStore:
    """A store whose disk no longer answers, until it is freed."""

    def __init__(self) -> None:
        self.freed = threading.Event()

    def admit(self, trajectory: Trajectory) -> bool:
        return self.freed.wait()

    def lacking(self, names: Sequence[str]) -> tuple[str, ...]:
        self.freed.wait()
        return tuple(names)

    def store_blob(self, name: str, sha256: str, kind: str, data: bytes) -> str:
        self.freed.wait()
        return sha256

    def keep_outcome(self, outcome: TaskOutcome) -> None:
        self.freed.wait()

    def stats(self) -> LedgerStats:
        raise KeyError("broken")

    def close(self) -> None:
        self.freed.wait()


@pytest.fixture
def stuck():
    store = StuckStore()
    yield store
    store.freed.set()


@pytest.fixture
async def actor(tmp_path):
    actor = LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite"))
    await actor.start()
    yield actor
    await actor.stop()


async def test_a_success_is_admitted_once(actor: LedgerActor, make_trajectory: MakeTrajectory):
    trajectory = make_trajectory("click a")
    with capture_logs() as logs:
        answers = [await actor.hear(Admit(trajectory=trajectory)) for _ in range(2)]

    assert answers == [
        Admitted(trajectory_id=trajectory.id),
        AlreadyKnown(trajectory_id=trajectory.id),
    ]
    assert [log["event"] for log in logs] == ["trajectory.admitted", "trajectory.recognised"]
    assert actor.statistics()["admitted"] == 1


async def test_after_a_restart_what_was_admitted_is_known(
    tmp_path, make_trajectory: MakeTrajectory
):
    answers = []
    for _ in range(2):
        actor = LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite"))
        await actor.start()
        answers.append(await actor.hear(Admit(trajectory=make_trajectory("click a"))))
        await actor.stop()

    assert [type(answer) for answer in answers] == [Admitted, AlreadyKnown]


async def test_a_blob_is_stored_every_time_alike(actor: LedgerActor):
    digest = hashlib.sha256(b"pixels").hexdigest()
    blob = StoreBlob(name="frame", sha256=digest, kind="png", data=b"pixels")

    assert [await actor.hear(blob) for _ in range(2)] == [BlobStored(sha256=digest)] * 2


async def test_what_is_wanted_is_what_is_not_stored(actor: LedgerActor):
    digest = hashlib.sha256(b"pixels").hexdigest()
    await actor.hear(StoreBlob(name="frame-1", sha256=digest, kind="png", data=b"pixels"))

    answer = await actor.hear(BlobsWanted(names=("frame-0", "frame-1", "frame-2")))

    assert answer == BlobsLacking(names=("frame-0", "frame-2"))


@pytest.mark.parametrize("digest", ["ab" * 32, "../../x"])
async def test_a_blob_of_another_digest_is_refused_and_is_no_crash(actor: LedgerActor, digest: str):
    blob = StoreBlob(name="frame", sha256=digest, kind="png", data=b"pixels")

    with capture_logs() as logs:
        answer = await actor.hear(blob)

    assert isinstance(answer, BlobRefused)
    assert "sha256" in answer.reason
    assert [log["event"] for log in logs] == ["blob.refused"]


async def test_outcomes_are_kept_and_everything_is_counted(
    actor: LedgerActor, make_trajectory: MakeTrajectory
):
    outcome = TaskOutcome(
        task_id=TaskId("t"), template="t", split="train", leaves=2, successes=1, state="solved"
    )

    assert await actor.hear(outcome) == OutcomeKept(task_id=TaskId("t"))
    await actor.hear(Admit(trajectory=make_trajectory("click a", "click b")))
    assert await actor.hear(Query()) == LedgerStats(
        trajectories=1, certified=1, tasks=1, templates=1, steps=2, distinct_steps=2, blobs=0
    )


async def test_a_full_disk_crashes_an_admission_and_refuses_a_blob(
    tmp_path, make_trajectory: MakeTrajectory
):
    actor = LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite", free_bytes_min=2**60))
    await actor.start()

    with pytest.raises(LedgerFullError, match=str(tmp_path)):
        await actor.hear(Admit(trajectory=make_trajectory("click a")))
    digest = hashlib.sha256(b"x").hexdigest()
    with capture_logs():
        answer = await actor.hear(StoreBlob(name="f", sha256=digest, kind="png", data=b"x"))
    assert isinstance(answer, BlobRefused)
    await actor.stop()


async def test_a_disk_that_has_no_room_for_a_new_ledger_is_waited_for(tmp_path, autojump_clock):
    tries = []

    def open_store() -> LedgerStore:
        tries.append(trio.current_time())
        if len(tries) < 3:
            raise LedgerFullError(tmp_path, 0)
        return LedgerStore(tmp_path / "ledger.sqlite")

    async def here(call, *, limiter):
        return call()

    room = Room(tmp_path, 0, free_bytes=lambda _: 1)
    actor = LedgerActor(open_store, room=room, run_blocking=here)
    with capture_logs() as logs:
        await actor.start()

    assert len(tries) == 3
    assert isinstance(await actor.hear(Query()), LedgerStats)
    assert [log["event"] for log in logs] == ["run.paused"]
    await actor.stop()


async def test_stopping_what_never_started_does_no_harm(tmp_path):
    await LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite")).stop()

    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_ledger_crashes_the_start(tmp_path):
    (tmp_path / "ledger.sqlite").write_text("not a database " * 100)
    actor = LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite"))

    with pytest.raises(NotALedgerError):
        await actor.start()
    await actor.stop()


async def test_a_disk_that_does_not_answer_crashes_the_actor_in_time(
    stuck: StuckStore, make_trajectory: MakeTrajectory
):
    actor = LedgerActor(lambda: stuck, timeout_s=0.5)
    await actor.start()

    with trio.fail_after(10), pytest.raises(trio.TooSlowError):
        await actor.hear(Admit(trajectory=make_trajectory("click a")))


async def test_a_store_that_does_not_close_is_left_behind(stuck: StuckStore):
    actor = LedgerActor(lambda: stuck, timeout_s=0.5)
    await actor.start()

    with trio.fail_after(10), capture_logs() as logs:
        await actor.stop()
    assert [log["event"] for log in logs] == ["ledger.abandoned"]


async def test_a_broken_store_crashes_the_actor(stuck: StuckStore):
    actor = LedgerActor(lambda: stuck, timeout_s=0.5)
    await actor.start()

    with pytest.raises(KeyError, match="broken"):
        await actor.hear(Query())
    stuck.freed.set()
    await actor.stop()
