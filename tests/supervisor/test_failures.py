"""Whatever breaks, in a child or beside it, a supervisor goes on or ends in one plain error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tally import SupervisorError
from envs_node.supervisor.tree import Strategy, Supervisor

QUICK = Intensity(burst=3, window_s=60, first_s=1, factor=1, jitter=0)


class PreemptedError(Exception):
    """The ground went away."""


class SilentError(Exception):
    """Cannot even be put into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def dying(errors: list[BaseException], lives: list[str]) -> Start:
    """A child that is up, dies of each of these errors in turn, and then lives on."""

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        lives.append("+")
        task_status.started()
        await trio.sleep(1)
        if errors:
            raise errors.pop(0)
        await trio.sleep_forever()

    return start


async def stuck(*, task_status: trio.TaskStatus[None]) -> None:
    """Ignores being cancelled."""
    task_status.started()
    with trio.CancelScope(shield=True):
        await trio.sleep(1_000)


async def test_a_child_stuck_beyond_cancelling_is_destroyed_abandoned_and_replaced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row E10."""
    told: list[Crashed] = []
    destroyed_s: list[float] = []
    spec = ChildSpec(
        name="deaf",
        start=stuck,
        destroy_s=5,
        destroy=lambda: destroyed_s.append(trio.current_time()),
    )
    tree = Supervisor("house", publish=told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await tree.start_child(spec)
        began_s = trio.current_time()

        await tree.stop_child("deaf")
        assert trio.current_time() - began_s == pytest.approx(5 + 1)
        assert [at - began_s for at in destroyed_s] == [pytest.approx(5)]
        await tree.start_child(spec)
        assert tree.statistics()["up"] == 1
        tree.stop()

    assert [(crash.child, crash.cause) for crash in told] == [("deaf", "abandoned")] * 2
    assert tree.statistics()["abandoned"] == 2
    await trio.sleep(2_000)  # when it wakes up at last, nobody is disturbed


async def test_a_child_stuck_in_a_thread_ends_when_what_it_hangs_on_is_destroyed() -> None:
    """Row E10: an uncancellable read in a thread, on the real clock."""
    told: list[Crashed] = []
    closed = threading.Event()

    async def reading(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.to_thread.run_sync(closed.wait)  # not abandoned when cancelled

    spec = ChildSpec(name="reading", start=reading, destroy_s=0.05, destroy=closed.set)
    tree = Supervisor("house", [spec], publish=told.append)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            tree.stop()

    assert told == []
    assert tree.statistics()["abandoned"] == 0


async def test_a_stuck_child_does_not_keep_its_group_from_a_restart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lives: list[str] = []
    first = ChildSpec(name="a", start=dying([ValueError("x")], lives))
    second = ChildSpec(name="b", start=stuck, destroy_s=2)
    tree = Supervisor("house", [first, second], strategy="rest_for_one", intensity=QUICK)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(10)

        assert tree.statistics() == {
            "children": 2, "up": 2, "restarts": 1, "restarts_preempted": 0, "abandoned": 1,
        }  # fmt: skip
        tree.stop()
    assert lives == ["+", "+"]


async def test_a_supervisor_waits_for_a_supervisor_however_long_its_children_take(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = ChildSpec(name="slow", start=stuck, destroy_s=2_000)
    below = Supervisor("below", [slow])
    tree = Supervisor("house", [ChildSpec(name="below", start=below.run, destroy_s=1)])
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        tree.stop()

    assert trio.current_time() == pytest.approx(1_000)
    assert tree.statistics()["abandoned"] == below.statistics()["abandoned"] == 0


async def test_ends_that_are_nobodys_fault_spend_nothing_of_the_intensity(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row E15: five preemptions and one crash, where more than three crashes are too many."""
    lives: list[str] = []
    errors: list[BaseException] = [*(PreemptedError(str(n)) for n in range(5)), ValueError("own")]
    told: list[Crashed] = []
    spec = ChildSpec(
        name="a",
        start=dying(errors, lives),
        is_preempted=lambda error: isinstance(error, PreemptedError),
    )
    tree = Supervisor("house", [spec], intensity=QUICK, publish=told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(30)

        assert tree.statistics()["up"] == 1
        assert tree.statistics()["restarts"] == 6
        assert tree.statistics()["restarts_preempted"] == 5
        tree.stop()
    assert [crash.cause for crash in told] == ["preempted"] * 5 + ["fault"]
    assert [crash.restarts for crash in told] == [0, 1, 2, 3, 4, 5]


async def test_preemptions_too_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """Row E12: a storm of restarts ends with a report, whoever is at fault."""
    spec = ChildSpec(
        name="a",
        start=dying([PreemptedError(str(n)) for n in range(99)], []),
        is_preempted=lambda error: True,
    )
    tree = Supervisor("house", [spec], intensity=Intensity(preempted_burst=7, window_s=1_000))

    with pytest.raises(SupervisorError, match=r"house/a crashed 8 times .* PreemptedError: 0"):
        await tree.run()


async def test_three_levels_up_the_error_still_names_the_first_cause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def leaf(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise OSError("no space left")

    def level(name: str, child: ChildSpec, burst: int) -> Supervisor:
        return Supervisor(name, [child], intensity=Intensity(burst=burst, window_s=1_000))

    def again(name: str, make: Callable[[], Supervisor]) -> ChildSpec:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await make().run(task_status=task_status)

        return ChildSpec(name=name, start=start)

    desktop = ChildSpec(name="desktop", start=leaf)
    slot = again("slot", lambda: level("slot", desktop, 2))
    node = level("node", again("slots", lambda: level("slots", slot, 1)), 1)

    with pytest.raises(SupervisorError) as caught:
        await node.run()

    assert str(caught.value) == (
        "node/slots/slot/desktop crashed 3 times within 1000 s, first with OSError: no space "
        "left; mend that and start again: every `child.crashed` in the log tells one of them"
    )


@pytest.mark.parametrize("error", [RuntimeError("hook"), SilentError()], ids=["words", "none"])
async def test_a_hook_that_breaks_is_told_of_once_and_changes_nothing(
    autojump_clock: trio.testing.MockClock, error: Exception
) -> None:
    """Row E23."""
    lives: list[str] = []

    def broken(crashed: Crashed) -> None:
        raise error

    spec = ChildSpec(
        name="a",
        start=dying([ValueError("1"), SilentError(), ValueError("3")], lives),
    )
    tree = Supervisor("house", [spec], intensity=QUICK, publish=broken)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            await trio.sleep(30)
            tree.stop()

    assert lives == ["+"] * 4
    assert [line["event"] for line in logs] == ["hook.failed"]


async def test_an_error_without_words_is_known_by_its_kind(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told: list[Crashed] = []
    spec = ChildSpec(name="a", start=dying([SilentError()], []), restart="never")
    tree = Supervisor("house", [spec], publish=told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(5)
        tree.stop()

    assert [crash.error for crash in told] == ["SilentError"]
    assert "Traceback" in told[0].traceback


async def test_a_rung_that_breaks_does_not_end_the_ladder(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told: list[Crashed] = []

    def broken() -> None:
        raise OSError("no such rung")

    spec = ChildSpec(name="deaf", start=stuck, ask_stop=broken, destroy=broken, destroy_s=1)
    other: list[str] = []
    first = ChildSpec(name="a", start=dying([], other))
    tree = Supervisor("house", [first, spec], publish=told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        tree.stop()

    assert [crash.cause for crash in told] == ["fault", "fault", "abandoned"]
    assert trio.current_time() == pytest.approx(1 + 1)


async def test_a_library_that_asks_to_exit_crashes_its_child_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lives: list[str] = []
    spec = ChildSpec(name="a", start=dying([SystemExit(3)], lives))
    tree = Supervisor("house", [spec], intensity=QUICK)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(5)
        tree.stop()

    assert lives == ["+", "+"]


class BrokenChance(Random):
    """Stands for any fault of the supervisor's own."""

    def random(self) -> float:
        raise ArithmeticError("the supervisor itself broke")


async def test_a_supervisor_that_breaks_stops_its_children_and_is_restarted_by_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lives: list[str] = []
    stopped: list[str] = []
    chances = [BrokenChance(), Random(0)]

    async def other(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            stopped.append("other")

    async def slot(*, task_status: trio.TaskStatus[None]) -> None:
        children = [
            ChildSpec(name="other", start=other),
            ChildSpec(name="a", start=dying([ValueError("x")], lives)),
        ]
        chance = chances.pop(0)
        await Supervisor("slot", children, chance=chance).run(task_status=task_status)

    told: list[Crashed] = []
    tree = Supervisor("house", [ChildSpec(name="slot", start=slot)], publish=told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(1.5)
        assert stopped == ["other"]
        await trio.sleep(30)
        assert tree.statistics()["up"] == 1
        tree.stop()

    assert [crash.error for crash in told] == ["ArithmeticError: the supervisor itself broke"]
    assert lives == ["+", "+", "+"]


@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all"])
@pytest.mark.parametrize("after_s", [0.5, 1.0, 1.5, 2.2])
async def test_cancelled_at_any_moment_of_a_restart_it_leaves_nobody(
    autojump_clock: trio.testing.MockClock, strategy: Strategy, after_s: float
) -> None:
    alive: set[str] = set()

    def child(name: str, *, is_dying: bool) -> ChildSpec:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            alive.add(name)
            try:
                await trio.sleep(0.3)
                task_status.started()
                await trio.sleep(0.7 if is_dying else 9)
                raise ValueError(name)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.1)
                alive.discard(name)

        return ChildSpec(name=name, start=start)

    specs = [child("a", is_dying=True), child("b", is_dying=False)]
    tree = Supervisor("house", specs, strategy=strategy, intensity=QUICK)
    with trio.move_on_after(after_s):
        await tree.run()

    assert not alive
    assert tree.statistics()["up"] == 0


async def test_stopping_and_removing_at_once_waits_for_the_child_that_is_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    over: list[str] = []

    async def slow(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            over.append("slow")

    tree = Supervisor("house", [ChildSpec(name="slow", start=slow)])
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await tree.run()
            assert over == ["slow"]

        nursery.start_soon(run)
        await trio.sleep(1)
        nursery.start_soon(tree.stop_child, "slow")
        await trio.sleep(1)
        tree.stop()


async def test_a_supervisor_that_gave_up_begins_anew_when_it_is_restarted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lives: list[str] = []
    errors: list[BaseException] = [ValueError(str(n)) for n in range(5)]
    below = Supervisor(
        "below", [ChildSpec(name="a", start=dying(errors, lives))], intensity=Intensity(burst=3)
    )
    tree = Supervisor("house", [ChildSpec(name="below", start=below.run)])
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(60)

        assert below.statistics()["up"] == 1
        assert tree.statistics()["restarts"] == 1
        tree.stop()
    assert len(lives) == 6
