"""A node's board: its desktops, its troubles with the way out, and all of it bounded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from envs_node.actors.mailbox import ActorCrashedError
from envs_node.deploy.health import Health, host_troubles
from envs_node.messages.base import ActorName, BranchId, DesktopId, Message, TaskId
from envs_node.messages.lifecycle import Crashed
from envs_node.messages.search import Assign, BranchCost, Drive, LeafReached, ReplayCheck
from envs_node.messages.status import DesktopReport

D0 = DesktopId("d-0")
DRIVE = Drive(
    assign=Assign(
        branch_id=BranchId("t#1"), task_id=TaskId("t"), task_sha256="", kind="explore", lease=1,
        lease_ms=1000, proposer=ActorName("proposer"),
    )
)  # fmt: skip
BROKEN = LeafReached(
    branch_id=BranchId("t#1"), task_id=TaskId("t"), lease=1, kind="explore", reason="infra",
    verdict=None, steps=(), cost=BranchCost(), replay=ReplayCheck(), detail="the X server died",
    cause="desktop",
)  # fmt: skip


class _Replay:
    """A reference whose answer is made when it is asked."""

    name = ActorName("replay/d-0")

    def __init__(self, answer: Callable[[], Message]) -> None:
        self._answer = answer

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        return self._answer()

    def tell(self, message: Message) -> None:
        raise AssertionError("nothing is told to a replay")


async def test_what_is_asked_of_a_replay_says_what_its_desktop_is_at() -> None:
    health = Health()
    seen: list[DesktopReport] = []

    def answer() -> Message:
        seen.extend(health.report().desktops)
        return BROKEN

    await health.watched(_Replay(answer), D0).ask(DRIVE, timeout_s=1)
    report = health.report()

    assert seen == [DesktopReport(desktop_id=D0, state="working", branch_id=BranchId("t#1"))]
    assert report.desktops == (
        DesktopReport(desktop_id=D0, state="broken", detail="the X server died"),
    )
    assert report.degraded == ("d-0 is broken: the X server died; its branches go elsewhere",)


async def test_a_replay_that_crashes_breaks_its_desktop_and_the_error_goes_on() -> None:
    health = Health()

    def crash() -> Message:
        raise ActorCrashedError("replay/d-0", "boom")

    with pytest.raises(ActorCrashedError):
        await health.watched(_Replay(crash), D0).ask(DRIVE, timeout_s=1)

    assert health.report().desktops[0].state == "broken"


async def test_crashes_are_counted_and_are_trouble_for_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    health = Health()
    for restarts in range(3):
        health.crashed(Crashed(child="verifier", error="TypeError: no", restarts=restarts), D0)

    report = health.report()
    await trio.sleep(61)
    later = health.report()

    assert report.restarts == later.restarts == 3
    (reason,) = report.degraded
    assert reason.startswith("verifier/d-0 crashed 3 times within 60 s and was started again: Ty")
    assert report.desktops[0].state == "starting"
    assert later.degraded == ()


async def test_a_child_that_went_down_with_another_is_counted_and_no_trouble_of_its_own() -> None:
    health = Health()
    health.crashed(Crashed(child="launcher", error="killed", restarts=0))
    health.crashed(Crashed(child="work", error="", restarts=0, cause="preempted"), D0)

    report = health.report()

    assert report.restarts == 2
    (reason,) = report.degraded
    assert reason.startswith("launcher crashed once within 60 s and was started again: killed;")


async def test_a_mark_counts_until_it_is_cleared_or_its_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    health = Health()
    health.mark("a", "stays")
    health.mark("b", "passes", for_s=5)

    assert health.report().degraded == ("stays", "passes")
    await trio.sleep(6)
    assert health.report().degraded == ("stays",)
    health.clear("a")
    assert health.report().degraded == ()


async def test_a_report_is_bounded() -> None:
    queues = tuple((ActorName(f"a-{number}"), number) for number in range(200))
    health = Health(queues=lambda: queues, troubles=tuple([lambda: "x" * 999] * 50))

    report = health.report()

    assert len(report.queues) == 32
    assert report.queues[0] == (ActorName("a-199"), 199)
    assert len(report.degraded) == 8
    assert max(map(len, report.degraded)) == 300


def test_a_host_is_looked_at_and_a_folder_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    assert all(isinstance(trouble(), str) for trouble in host_troubles(tmp_path))
    assert host_troubles(tmp_path / "gone")[0]() == ""
