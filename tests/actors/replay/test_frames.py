"""The ledger gets the pictures that it lacks; certified paths wait for it, others not for long."""

from __future__ import annotations

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from envs_node.actors.replay.frames import frames_of
from envs_node.messages.base import Message
from envs_node.messages.desktop import FetchFrame, FrameUnknown
from envs_node.messages.ledger import BLOBS_WAIT_MAX_S, BlobsLacking, BlobsWanted, StoreBlob
from envs_node.messages.search import LeafReached, Renew
from tests.actors.replay.driving import TASK, assign
from tests.actors.replay.scripted_head import Head, Scripted, certifying, leaves, stored
from tests.fakes import note_screen
from tests.policy.drive import drive


async def test_a_certified_success_is_preceded_by_each_of_its_frames_once(
    autojump_clock: MockClock,
) -> None:
    head = Head(certifying())

    await head.serve_one_worker()

    kinds = [type(message) for _, message in head.story if not isinstance(message, Renew)]
    frames = [m.name for m in head.heard("ledger") if isinstance(m, StoreBlob)]
    (leaf,) = (m for m in head.heard("search") if isinstance(m, LeafReached))
    seen = [step.observation.signature.frame for step in leaf.steps]
    assert frames == list(dict.fromkeys(seen))
    assert kinds.index(LeafReached) > max(
        place for place, kind in enumerate(kinds) if kind is StoreBlob
    )


async def test_a_frame_that_is_gone_keeps_no_report_back(autojump_clock: MockClock) -> None:
    head = Head(certifying())

    def gone(message: Message) -> Message:
        assert isinstance(message, FetchFrame)
        return FrameUnknown(frame=message.frame, reason="dropped for space")

    head.actors["desktop/d-0"] = Scripted("desktop", head.story, gone)

    await head.serve_one_worker()

    assert stored(head) == []
    assert [type(m) for m in head.heard("search")] == [LeafReached]


async def test_the_pictures_of_every_branch_follow_its_report_each_once(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(keep_frames="all"), assign(keep_frames="all", lease=8))

    await head.serve_one_worker()

    kinds = [type(message) for _, message in head.story]
    assert len(stored(head)) == len(set(stored(head))) == 3
    assert kinds.index(StoreBlob) > kinds.index(LeafReached)
    assert len(leaves(head)) == 2


async def test_the_ledger_is_asked_once_a_branch_and_sent_what_it_lacks(
    autojump_clock: MockClock,
) -> None:
    head = Head(*(assign(keep_frames="all", lease=lease) for lease in (7, 8)))
    seen = frames_of(drive(note_screen(), assign())[1])
    head.kept = {seen[0], seen[2]}

    await head.serve_one_worker()

    assert stored(head) == [seen[1]]
    assert [m for m in head.heard("ledger") if isinstance(m, BlobsWanted)] == [
        BlobsWanted(names=tuple(seen))
    ]


async def test_a_certified_success_sends_nothing_that_the_ledger_has(
    autojump_clock: MockClock,
) -> None:
    head = Head(certifying())
    head.kept = set(frames_of(drive(note_screen(), certifying())[1]))

    await head.serve_one_worker()

    assert stored(head) == []
    assert len(leaves(head)) == 1


@pytest.mark.parametrize("is_there", [True, False])
async def test_pictures_wait_ten_seconds_for_a_ledger_and_are_dropped(
    autojump_clock: MockClock, is_there: bool
) -> None:
    head = Head(*(assign(keep_frames="all", lease=lease) for lease in (7, 8)))
    if is_there:
        head.actors["ledger"] = Scripted("ledger", head.story, lambda _: None, delay_s=3600)
    else:
        del head.actors["ledger"]

    began_s = trio.current_time()
    with capture_logs() as logs:
        await head.serve_one_worker()

    assert [leaf.lease for leaf in leaves(head)] == [7, 8]
    assert trio.current_time() - began_s == pytest.approx(2 * BLOBS_WAIT_MAX_S, abs=1)
    told = [log for log in logs if log["event"].startswith(("frame", "report"))]
    assert [(log["event"], log["dropped"], log["frames"]) for log in told] == [
        ("frames.dropped", 3, 3)
    ] * 2


@pytest.mark.parametrize(
    ("kind", "wait_ms", "waited_s", "sent"),
    [("explore", 4000, 4, 3), ("explore", 10_000, 0, 0), ("certify", 10_000, 0, 3)],
)
async def test_pictures_come_when_it_is_their_turn_but_certified_ones_at_once(
    autojump_clock: MockClock, kind: str, wait_ms: int, waited_s: float, sent: int
) -> None:
    head = Head(certifying() if kind == "certify" else assign(keep_frames="all"))

    def keep(message: Message) -> Message:
        if isinstance(message, BlobsWanted):
            return BlobsLacking(names=message.names, wait_ms=wait_ms)
        return head.keep(message)

    head.actors["ledger"] = Scripted("ledger", head.story, keep)

    began_s = trio.current_time()
    with capture_logs() as logs:
        await head.serve_one_worker()

    assert trio.current_time() - began_s == pytest.approx(waited_s, abs=0.5)
    assert len(stored(head)) == sent
    assert any(log["event"] == "frames.dropped" for log in logs) == (sent == 0)


async def test_a_certified_success_insists_on_its_pictures(autojump_clock: MockClock) -> None:
    head = Head(certifying())
    unanswered = iter(range(30))

    def keep(message: Message) -> Message | None:
        if next(unanswered, None) is not None:
            return None
        return head.keep(message)

    head.actors["ledger"] = Scripted("ledger", head.story, keep)

    began_s = trio.current_time()
    await head.serve_one_worker()

    (leaf,) = leaves(head)
    assert trio.current_time() - began_s > BLOBS_WAIT_MAX_S
    assert set(stored(head)) == set(frames_of(leaf))


async def test_pictures_of_a_run_that_is_over_are_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(keep_frames="all"))
    head.knows_task = False
    del head.actors[f"search/{TASK.id}"]
    del head.actors["ledger"]

    began_s = trio.current_time()
    await head.serve_one_worker()

    assert trio.current_time() - began_s < 1


async def test_another_run_is_sent_the_pictures_anew(autojump_clock: MockClock) -> None:
    head = Head(*(assign(keep_frames="all", search_id=run) for run in (1, 2)))

    await head.serve_one_worker()

    assert len(stored(head)) == 2 * len(set(stored(head))) == 6


async def test_no_picture_is_kept_of_a_run_that_wants_none(autojump_clock: MockClock) -> None:
    head = Head(msgspec.structs.replace(certifying(), keep_frames="none"))

    await head.serve_one_worker()

    assert stored(head) == []
    assert len(leaves(head)) == 1
