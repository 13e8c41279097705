"""A slot asks for work, keeps its lease while it drives, and hands in until it is answered."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock

from envs_node.messages.base import Message
from envs_node.messages.search import Idle, LeafReached, Renew, WorkWanted
from tests.actors.replay.driving import TASK, assign
from tests.actors.replay.scripted_head import ME, Head, Scripted, leaves


async def test_a_branch_is_driven_and_its_leaf_handed_in(autojump_clock: MockClock) -> None:
    head = Head(assign("gate"), assign())

    await head.serve_one_worker()

    reports = leaves(head)
    assert [leaf.kind for leaf in reports] == ["gate", "explore"]
    assert head.heard("ledger") == []


async def test_the_lease_is_renewed_thrice_as_often_as_it_lapses(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(lease_ms=3000), drive_s=10.5)

    await head.serve_one_worker()

    renewals = [m for m in head.heard("search") if isinstance(m, Renew)]
    assert len(renewals) == 10
    assert set(renewals) == {Renew(branch_id=assign().branch_id, lease=7)}
    assert isinstance(head.heard("search")[-1], LeafReached)


async def test_a_report_without_an_answer_is_repeated_until_there_is_one(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign())
    head.unanswered = 3

    await head.serve_one_worker()

    reports = leaves(head)
    assert len(reports) == 4
    assert len(set(map(repr, reports))) == 1


async def test_a_head_that_is_away_is_asked_until_it_is_there(autojump_clock: MockClock) -> None:
    head = Head(assign(), is_head_up=False)

    await head.serve_one_worker()

    assert [type(m) for m in head.heard("search")] == [LeafReached]


@pytest.mark.parametrize("retry_ms", [0, 200])
async def test_an_idle_worker_asks_again_and_does_not_spin(
    autojump_clock: MockClock, retry_ms: int
) -> None:
    head = Head()
    asked = trio.Event()
    times: list[float] = []

    def idle(message: Message) -> Message:
        times.append(trio.current_time())
        if len(times) == 5:
            asked.set()
        return Idle(retry_ms=retry_ms)

    head.scheduler = Scripted("scheduler", head.story, idle)

    await head.serve_one_worker(asked)

    assert times[4] - times[0] >= 4 * max(retry_ms, 50) / 1000 - 1e-6
    assert msgspec.to_builtins(head.heard("scheduler")[0])["worker"] == ME


async def test_a_branch_that_is_anothers_is_not_reported(autojump_clock: MockClock) -> None:
    head = Head(assign(lease_ms=3000, keep_frames="all"), drive_s=2.5)
    head.lapses = True

    await head.serve_one_worker()

    assert leaves(head) == []
    assert len([m for m in head.heard("search") if isinstance(m, Renew)]) == 1


async def test_a_finished_report_outlives_a_head_that_is_away_for_minutes(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(), assign(lease=8))
    head.unanswered = 50

    await head.serve_one_worker()

    reports = leaves(head)
    wanted = [m for m in head.heard("scheduler") if isinstance(m, WorkWanted)]
    assert [leaf.lease for leaf in reports] == [7] * 51 + [8]
    assert [m.task_id for m in wanted] == [None, TASK.id, TASK.id]


async def test_a_report_that_another_run_does_not_know_is_dropped(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(), assign(lease=8))
    head.unanswered, head.knows_task = 1, False

    await head.serve_one_worker()

    assert [leaf.lease for leaf in leaves(head)] == [7, 8]


async def test_a_driver_that_is_not_there_is_told_as_the_desktops_fault(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign())
    del head.actors["replay/d-0"]

    await head.serve_one_worker()

    (leaf,) = leaves(head)
    assert (leaf.reason, leaf.cause, leaf.lease) == ("infra", "desktop", 7)


async def test_a_renewal_that_is_not_heard_is_said_again_before_the_lease_is_over(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(lease_ms=3000), drive_s=2.9)
    head.unheard = 2

    await head.serve_one_worker()

    assert len([m for m in head.heard("search") if isinstance(m, Renew)]) >= 3
