"""Supervisors under virtual time: who is started, brought back, stopped, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
import trio.testing

from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec, Restart
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tree import Strategy, Supervisor, SupervisorError

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
            publish=self.crashes.append,
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

    with pytest.raises(SupervisorError, match="more than 3 crashes in 30 s, the last of b"):
        await tree.run()

    assert stage.lives == ["+a", "-a"]
    assert len(stage.crashes) == 4
