"""The actor answers each message, twice alike, and crashes where it cannot keep its word."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.ledger.errors import LedgerFullError
from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import (
    Admit,
    Admitted,
    AlreadyKnown,
    BlobRefused,
    BlobStored,
    LedgerStats,
    OutcomeKept,
    Query,
    StoreBlob,
    TaskOutcome,
    Trajectory,
)

MakeTrajectory = Callable[..., Trajectory]


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


async def test_stopping_what_never_started_does_no_harm(tmp_path):
    await LedgerActor(lambda: LedgerStore(tmp_path / "ledger.sqlite")).stop()

    assert list(tmp_path.iterdir()) == []
