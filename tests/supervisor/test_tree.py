"""Supervisors under virtual time: who is started, brought back, stopped, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest
import trio
import trio.testing

from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec, Restart
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tally import SupervisorError
from envs_node.supervisor.tree import Strategy, Supervisor

PATIENT = Intensity(burst=5, window_s=30, first_s=1, factor=2, longest_s=8, jitter=0)


class Stage:
    """Children that write down their lives, and die when told to."""

    def __init__(self) -> None:
        self.lives: list[str] = []
        self.orders: dict[str, trio.Event] = {}
        self.crashes: list[Crashed] = []

    def spec(
        self,
        name: str,
        *,
        restart: Restart = "always",
        start_crashes: int = 0,
        start_s: float = 0.0,
        is_stubborn: bool = False,
        dies_in_teardown: bool = False,
        ask_stop: Callable[[], None] | None = None,
    ) -> ChildSpec:
        left = [start_crashes]

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            if left[0] > 0:
                left[0] -= 1
                raise RuntimeError(f"{name} cannot start")
            await trio.sleep(start_s)
            order = self.orders[name] = trio.Event()
            self.lives.append(f"+{name}")
            task_status.started()
            try:
                await order.wait()
            finally:
                self.lives.append(f"-{name}")
                if is_stubborn:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(3)
                if dies_in_teardown:
                    raise ValueError(f"{name} broke while stopping")
            raise RuntimeError(f"{name} crashed")

        return ChildSpec(name=name, start=start, restart=restart, ask_stop=ask_stop)

    def crash(self, name: str) -> None:
        self.orders[name].set()

    def note(self, crashed: Crashed) -> None:
        self.crashes.append(msgspec.structs.replace(crashed, traceback=""))

    def tree(
        self,
        *specs: ChildSpec,
        strategy: Strategy = "one_for_one",
        intensity: Intensity = PATIENT,
    ) -> Supervisor:
        return Supervisor(
            "house",
            specs,
            strategy=strategy,
            intensity=intensity,
            chance=Random(0),
            publish=self.note,
        )


@pytest.mark.parametrize(
    ("strategy", "after"),
    [
        ("one_for_one", ["-b", "+b"]),
        ("rest_for_one", ["-b", "-c", "+b", "+c"]),
        ("one_for_all", ["-b", "-c", "-a", "+a", "+b", "+c"]),
    ],
)
async def test_a_crash_restarts_those_whose_state_is_now_a_lie(
    autojump_clock: trio.testing.MockClock, strategy: Strategy, after: list[str]
) -> None:
    stage = Stage()
    tree = stage.tree(*(stage.spec(name) for name in "abc"), strategy=strategy)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)

        stage.crash("b")
        await trio.sleep(10)
        tree.stop()

    assert stage.lives == ["+a", "+b", "+c", *after, "-c", "-b", "-a"]
    assert stage.crashes == [Crashed(child="b", error="RuntimeError: b crashed", restarts=0)]


async def test_children_start_one_after_another_and_stop_in_reverse(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a", start_s=5), stage.spec("b", start_s=1))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        assert trio.current_time() >= 6
        nursery.cancel_scope.cancel()

    assert stage.lives == ["+a", "+b", "-b", "-a"]


async def test_spent_intensity_stops_everybody_and_escalates(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(
        stage.spec("a"), stage.spec("b", start_crashes=100), intensity=Intensity(burst=3)
    )

    with pytest.raises(
        SupervisorError,
        match=r"^house/b crashed 4 times within 30 s, first with RuntimeError: b cannot",
    ):
        await tree.run()

    assert stage.lives == ["+a", "-a"]
    assert len(stage.crashes) == 4


@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all"])
async def test_a_child_that_dies_in_start_is_tried_again_before_the_next_starts(
    autojump_clock: trio.testing.MockClock, strategy: Strategy
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a", start_crashes=2), stage.spec("b"), strategy=strategy)
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)

        assert stage.lives == ["+a", "+b"]
        assert trio.current_time() - started_s == pytest.approx(1 + 2)
        assert [crash.restarts for crash in stage.crashes] == [0, 1]
        tree.stop()


async def test_a_child_that_waits_for_one_that_died_is_started_over_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"), stage.spec("b", start_s=100), strategy="rest_for_one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree.run)
        await trio.sleep(10)
        stage.crash("a")
        await trio.sleep(111)
        tree.stop()

    assert stage.lives == ["+a", "-a", "+a", "+b", "-b", "-a"]


@pytest.mark.parametrize(
    ("restart", "after_crash", "after_end"),
    [("always", 2, 2), ("on_crash", 2, 1), ("never", 1, 1)],
)
async def test_the_restart_rule_decides_who_comes_back(
    autojump_clock: trio.testing.MockClock, restart: Restart, after_crash: int, after_end: int
) -> None:
    lives = {"ending": 0}

    async def end_once(*, task_status: trio.TaskStatus[None]) -> None:
        lives["ending"] += 1
        task_status.started()
        if lives["ending"] > 1:
            await trio.sleep_forever()

    stage = Stage()
    ending = ChildSpec(name="ending", start=end_once, restart=restart)
    tree = stage.tree(stage.spec("crashing", restart=restart), ending)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        stage.crash("crashing")
        await trio.sleep(10)
        tree.stop()

    assert stage.lives.count("+crashing") == after_crash
    assert lives["ending"] == after_end


async def test_the_ladder_asks_waits_and_then_cancels(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[float] = []
    stage = Stage()
    deaf = stage.spec("deaf", ask_stop=lambda: asked.append(trio.current_time()))
    tree = stage.tree(deaf)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        stopped_s = trio.current_time()
        tree.stop()

    assert asked == [stopped_s]
    assert trio.current_time() - stopped_s == pytest.approx(deaf.shutdown_s)
    assert stage.lives == ["+deaf", "-deaf"]
    assert stage.crashes == []


async def test_who_listens_ends_before_it_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked = trio.Event()

    async def polite(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await asked.wait()
        await trio.sleep(1)

    tree = Stage().tree(ChildSpec(name="polite", start=polite, ask_stop=asked.set))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        stopped_s = trio.current_time()
        nursery.cancel_scope.cancel()

    assert trio.current_time() - stopped_s == pytest.approx(1)


async def test_cancelling_waits_for_a_stubborn_child_and_keeps_the_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"), stage.spec("b", is_stubborn=True))
    stopped_s = 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            stopped_s = trio.current_time()
            scope.cancel()

    assert scope.cancelled_caught
    assert trio.current_time() - stopped_s == pytest.approx(3)
    assert stage.lives == ["+a", "+b", "-b", "-a"]


async def test_a_child_that_dies_in_teardown_is_reported_and_stops_nobody_else(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"), stage.spec("b", dies_in_teardown=True))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        nursery.cancel_scope.cancel()

    assert stage.lives == ["+a", "+b", "-b", "-a"]
    assert [crash.error for crash in stage.crashes] == ["ValueError: b broke while stopping"]


async def test_failure_travels_up_from_a_nested_supervisor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    made: list[Supervisor] = []

    async def start_slot(*, task_status: trio.TaskStatus[None]) -> None:
        made.append(stage.tree(stage.spec("a"), intensity=Intensity(burst=0)))
        await made[-1].run(task_status=task_status)

    tree = stage.tree(ChildSpec(name="slot", start=start_slot), stage.spec("other"))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        stage.crash("a")
        await trio.sleep(10)

        assert len(made) == 2
        assert (tree.statistics()["up"], tree.statistics()["restarts"]) == (2, 1)
        tree.stop()

    assert stage.lives == ["+a", "+other", "-a", "+a", "-other", "-a"]
    assert [crash.child for crash in stage.crashes] == ["a", "slot"]


async def test_a_group_of_errors_is_one_crash(autojump_clock: trio.testing.MockClock) -> None:
    lives: list[str] = []

    async def die_twice(*, task_status: trio.TaskStatus[None]) -> None:
        lives.append("+")
        task_status.started()
        if len(lives) > 1:
            await trio.sleep_forever()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fail, "one")
            nursery.start_soon(_fail, "two")

    stage = Stage()
    tree = stage.tree(ChildSpec(name="twice", start=die_twice))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        await trio.sleep(10)
        tree.stop()

    assert len(lives) == 2
    assert len(stage.crashes) == 1
    assert stage.crashes[0].error in (
        "RuntimeError: one; RuntimeError: two",
        "RuntimeError: two; RuntimeError: one",
    )


async def _fail(name: str) -> None:
    raise RuntimeError(name)


async def test_children_come_and_go_while_it_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)

        await tree.start_child(stage.spec("b"))
        await tree.start_child(stage.spec("task", restart="never"))
        with pytest.raises(ValueError, match="a child named b already"):
            await tree.start_child(stage.spec("b"))
        await tree.stop_child("b")
        stage.crash("task")
        await trio.testing.wait_all_tasks_blocked()
        await tree.start_child(stage.spec("task", restart="never"))

        assert (tree.statistics()["children"], tree.statistics()["up"]) == (2, 2)
        tree.stop()

    assert stage.lives == ["+a", "+b", "+task", "-b", "-task", "+task", "-task", "-a"]
    with pytest.raises(RuntimeError, match="is not running"):
        await tree.start_child(stage.spec("c"))


async def test_a_child_stopped_during_its_back_off_stays_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"), stage.spec("b"))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        stage.crash("b")
        await trio.testing.wait_all_tasks_blocked()
        await tree.stop_child("b")
        await trio.sleep(60)
        tree.stop()

    assert stage.lives == ["+a", "+b", "-b", "-a"]


async def test_old_crashes_are_forgiven(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage()
    tree = stage.tree(stage.spec("a"))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        for _ in range(20):
            await trio.sleep(31)
            stage.crash("a")
        await trio.sleep(10)
        tree.stop()

    assert stage.lives.count("+a") == 21
