"""Simulated desktops and checkers: what `DesktopActor` and `VerifierActor` drive in a world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import trio

from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError
from envs_node.deploy.sim.network import next_tick_s
from envs_node.deploy.sim.world import World
from envs_node.messages.actions import Action
from envs_node.messages.base import DesktopId, EnvsError
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict

_ResultT = TypeVar("_ResultT")


class CheckerLostError(EnvsError):
    """The checker of a simulated desktop died."""


class Toil:
    """A `RunBlocking` without threads: the call is made at once, then the time it took passes."""

    def __init__(self) -> None:
        self._cost_s = 0.0

    def spend(self, cost_s: float) -> None:
        """Said by what is called: so long this takes."""
        self._cost_s += cost_s

    async def run(
        self, call: Callable[[], _ResultT], *, limiter: trio.CapacityLimiter | None = None
    ) -> _ResultT:
        """See `RunBlocking`. Cancelled, the call has been made, and its result is lost."""
        if limiter is None:
            return await self._make(call)
        async with limiter:
            return await self._make(call)

    async def _make(self, call: Callable[[], _ResultT]) -> _ResultT:
        self._cost_s = 0.0
        try:
            return call()
        finally:
            cost_s, self._cost_s = self._cost_s, 0.0
            if cost_s:
                await trio.sleep_until(next_tick_s(trio.current_time() + cost_s))


class SimDesktop:
    """A desktop of a world. Counts what it performs."""

    def __init__(self, world: World, desktop_id: DesktopId, number: int, toil: Toil) -> None:
        self._world = world
        self._id = desktop_id
        self._number = number
        self._toil = toil
        self._task: Task | None = None
        self._state = ""
        self._steps = 0
        self.is_doomed = False
        """Whether the next thing asked of it breaks it."""
        self.performed = 0
        self.resets = 0

    @property
    def guest_pid(self) -> int:
        """Names this desktop and its episode."""
        return self._number * 1_000_000 + self.resets

    def check(self, task: Task, branch: str = "") -> None:
        """Every task can be set up."""

    def reset(self, task: Task) -> Observation:
        """Stand in the task's first state."""
        self._break_if_doomed()
        self._task, self._steps = task, 0
        self._state = self._world.first(task)
        self.resets += 1
        self._toil.spend(self._world.takes_s("reset", f"{task.id}@{self._id}"))
        return self._world.observe(self._state)

    @property
    def can_fork(self) -> bool:
        """Not here."""
        return False

    def reset_forked(self, _task: Task, _prefix: Sequence[Action]) -> None:
        """Nobody was kept."""

    def keep_fork(self, _key: str, _seen: tuple[Observation, ...]) -> int:
        """Refuse."""
        raise ForkRefusedError("desktops of a world are not forked")

    def act(self, action: Action) -> Observation:
        """Go where the action leads."""
        self._break_if_doomed()
        self._toil.spend(self._world.takes_s("act", f"{self._state}#{self._steps}"))
        self._state = self._world.after(self._state, action)
        self._steps += 1
        self.performed += 1
        return self._world.observe(self._state)

    def observe(self) -> Observation:
        """Look."""
        self._break_if_doomed()
        return self._world.observe(self._state)

    def frame_png(self, digest: str) -> bytes | None:
        """A picture that holds nothing but its own name."""
        self._break_if_doomed()
        return digest.encode()

    def judge(self, task: Task, guest_pid: int) -> Verdict:
        """What the checker would say of it."""
        if guest_pid != self.guest_pid or task != self._task:
            return Verdict(verdict="infra", reason="that desktop is gone", task_sha256=task.sha256)
        is_done = self._world.is_success(task, self._state, self._steps)
        return Verdict(
            verdict="success" if is_done else "failure",
            score=float(is_done),
            task_sha256=task.sha256,
            checker="sim 1",
        )

    def close(self) -> None:
        """Be gone."""
        self._task = None
        self._state = ""

    def _break_if_doomed(self) -> None:
        if self.is_doomed:
            self.is_doomed = False
            raise DesktopLostError("the simulated desktop died")


class SimChecker:
    """The checker beside one simulated desktop."""

    def __init__(self, world: World, find: Callable[[], SimDesktop | None], toil: Toil) -> None:
        self._world = world
        self._find = find
        self._toil = toil
        self.is_doomed = False
        """Whether the next verdict is that it died."""

    def start(self) -> None:
        """Nothing to warm."""

    def verify(self, task: Task, guest_pid: int, last_action: Literal["DONE", "FAIL"]) -> Verdict:
        """Judge the desktop as it stands."""
        if self.is_doomed:
            self.is_doomed = False
            raise CheckerLostError("the simulated checker died")
        desktop = self._find()
        if desktop is None:
            return Verdict(verdict="infra", reason="no desktop is there", task_sha256=task.sha256)
        self._toil.spend(self._world.takes_s("verify", f"{task.id}@{guest_pid}"))
        return desktop.judge(task, guest_pid)

    def close(self) -> None:
        """Nothing to close."""
