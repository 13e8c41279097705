"""The storm: faults drawn from one seed, and done to processes that the overseer started."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from tests.chaos.overseer import Overseer
from tests.chaos.processes import Process

Phase = Literal["search", "fit"]
_WEIGHTS: dict[Phase, dict[str, int]] = {
    "search": {"head": 3, "desktops-a": 4, "desktops-b": 4, "policy": 3, "trainer": 1},
    "fit": {"head": 3, "desktops-a": 1, "desktops-b": 1, "policy": 1, "trainer": 6},
}
_PARTS = ("spawner", "zygote", "init", "xserver", "window-manager", "guest-server")
_PART_SHARE = 0.5
"""Of the faults of a desktop node that hit a part of it and not its main process."""
_POLL_S = 0.05


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it was drawn, before anything runs."""

    number: int
    phase: Phase
    gap: float
    """Work to be done since the fault before, as a share of an even spread."""
    service: str
    part: str
    """`role` for the main process; otherwise a kind of process below it."""
    pick: float
    """Which of several parts of a kind, from 0 to 1."""
    freeze_s: float
    """0 kills."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it was done. Times are those of `time.monotonic`."""

    plan: Plan
    pid: int
    kind: str
    command: str
    at_s: float
    thawed_s: float
    """When a frozen process was let go on; when a killed one was killed."""

    def line(self, began_s: float) -> str:
        """One line for people."""
        what = f"STOP for {self.plan.freeze_s:.1f} s" if self.plan.freeze_s else "KILL"
        return (
            f"{self.plan.phase:6s} {self.plan.number:3d} {self.at_s - began_s:7.2f} s "
            f"{self.plan.service:10s} {self.kind:14s} {what} (pid {self.pid})"
        )


def draw(
    seed: int,
    phase: Phase,
    count: int,
    *,
    lease_s: float,
    spare: frozenset[str],
    kill_share: float = 0.6,
) -> list[Plan]:
    """The faults of a seed in a phase. The first ones are the same however many are drawn.

    Args:
        spare: services that are left alone.
    """
    chance = random.Random(f"{seed}/{phase}")
    plans = []
    for number in range(count):
        is_kill = chance.random() < kill_share
        plan = _draw_one(chance, number, phase, lease_s, spare)
        plans.append(msgspec.structs.replace(plan, freeze_s=0.0) if is_kill else plan)
    return plans


def _draw_one(
    chance: random.Random, number: int, phase: Phase, lease_s: float, spare: frozenset[str]
) -> Plan:
    weights = {name: w for name, w in _WEIGHTS[phase].items() if name not in spare}
    service = chance.choices([*weights], [*weights.values()])[0]
    is_part = service.startswith("desktops") and chance.random() < _PART_SHARE
    is_long = chance.random() < 0.5
    freeze = chance.uniform(1.2, 1.8) if is_long else chance.uniform(0.1, 0.7)
    return Plan(
        number=number,
        phase=phase,
        gap=chance.uniform(0.5, 1.5),
        service=service,
        part=chance.choice(_PARTS) if is_part else "role",
        pick=chance.random(),
        freeze_s=round(freeze * lease_s, 2),
    )


class Storm:
    """Does what was drawn, at the pace of the work, and lets go on what it froze."""

    def __init__(self, overseer: Overseer) -> None:
        self._overseer = overseer
        self._frozen: list[tuple[float, str, Process]] = []
        self._began_s = time.monotonic()
        self.faults: list[Fault] = []
        self.missed: list[Plan] = []
        """Drawn, but no such process was there, or it was frozen already."""

    def blow(
        self,
        plans: list[Plan],
        *,
        count: int,
        done: Callable[[], float],
        whole: float,
        gap_s: float,
        is_over: Callable[[], bool],
    ) -> None:
        """Do these faults until the work is over; then wait for what is frozen still.

        Args:
            count: how many are to be done; those that find nothing to hit are not counted, so draw
                some more.
            done: how much work was done; grows.
            whole: how much there is at least; faults come more densely than that asks for.
            gap_s: a fault waits no longer than this for work to be done, and no less than a fifth.
        """
        share = 0.7 * whole / (count + 1)
        wanted = len(self.faults) + count
        for plan in plans:
            if is_over() or len(self.faults) >= wanted:
                break
            started_s, goal = time.monotonic(), done() + plan.gap * share
            while not is_over():
                waited_s = time.monotonic() - started_s
                if waited_s > gap_s or (done() >= goal and waited_s > gap_s / 5):
                    break
                self._thaw_due()
                time.sleep(_POLL_S)
            if is_over() or not self._strike(plan):
                self.missed.append(plan)
        while not is_over():
            self._thaw_due()
            time.sleep(_POLL_S)
        self.calm()

    def calm(self) -> None:
        """Let everything go on now."""
        for _, service, process in self._frozen:
            self._overseer.strike(service, process, signal.SIGCONT)
        self._frozen.clear()

    def _thaw_due(self) -> None:
        now = time.monotonic()
        for due in [entry for entry in self._frozen if entry[0] <= now]:
            self._frozen.remove(due)
            self._overseer.strike(due[1], due[2], signal.SIGCONT)

    def _strike(self, plan: Plan) -> bool:
        number = signal.SIGSTOP if plan.freeze_s else signal.SIGKILL
        main = self._overseer.services[plan.service].process()
        for process in self._candidates(plan, main):
            if plan.freeze_s and process.state in "Tt":
                continue  # it is frozen already, and let go on when that is over
            if not self._overseer.strike(plan.service, process, number):
                continue
            at_s = time.monotonic()
            if plan.freeze_s:
                self._frozen.append((at_s + plan.freeze_s, plan.service, process))
            is_main = main is not None and process.pid == main.pid
            self._note(
                Fault(
                    plan=plan,
                    pid=process.pid,
                    kind="role" if is_main else process.kind,
                    command=process.command[:120],
                    at_s=at_s,
                    thawed_s=at_s + plan.freeze_s,
                )
            )
            return True
        return False

    def _note(self, fault: Fault) -> None:
        """Remember a fault, and write it down at once: a run that hangs is read from there."""
        self.faults.append(fault)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with (self._overseer.folder / "faults.txt").open("a") as file:
            file.write(f"{now} {fault.line(self._began_s)}\n")

    def _candidates(self, plan: Plan, main: Process | None) -> Iterator[Process]:
        """The processes that are meant, likeliest first. Applications are the task's own world."""
        if main is None:
            return
        if plan.part != "role":
            parts = self._overseer.parts(plan.service)
            meant = [p for p in parts if p.kind == plan.part]
            if meant:
                yield meant[int(plan.pick * len(meant))]
        yield main
