"""What goes wrong in a simulation, how often, and when: all from one seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import trio

from envs_node.deploy.sim.network import Agenda, Line

_HOUR_S = 3600.0


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates an hour of virtual time: of desktops and checkers each, of nodes each."""

    desktop_crashes: float = 0.0
    checker_crashes: float = 0.0
    node_crashes: float = 0.0
    node_freezes: float = 0.0
    policy_crashes: float = 0.0
    policy_freezes: float = 0.0
    head_crashes: float = 0.0
    head_freezes: float = 0.0
    clock_jumps: float = 0.0
    ledger_slowdowns: float = 0.0
    ledger_errors: float = 0.0
    """A write that fails, and takes the ledger's actor with it."""
    disk_fills: float = 0.0
    """Times in which the ledger's disk has no room."""
    restart_s: float = 2.0
    """How long a killed node is down, at least; at most ten times that."""
    freeze_s: float = 60.0
    """How long a node is frozen at most: longer than a lease, and shorter."""
    jump_s: float = 3600.0
    """How far a clock is set at most, forth or back."""
    slow_s: float = 20.0
    """How long the disk stays slow or full, at most."""
    line: Line = Line()


CALM = Faults()
MILD = Faults(
    desktop_crashes=6,
    checker_crashes=2,
    node_crashes=4,
    node_freezes=4,
    policy_crashes=4,
    head_crashes=4,
    ledger_slowdowns=4,
    line=Line(jitter_s=0.02, loss=0.0005, doubling=0.002, lateness=0.002),
)
HARSH = Faults(
    desktop_crashes=30,
    checker_crashes=20,
    node_crashes=30,
    node_freezes=30,
    policy_crashes=30,
    policy_freezes=20,
    head_crashes=40,
    head_freezes=30,
    clock_jumps=30,
    ledger_slowdowns=30,
    ledger_errors=20,
    disk_fills=20,
    line=Line(jitter_s=0.05, loss=0.005, doubling=0.02, lateness=0.02),
)


class Mischief:
    """Draws when each kind of fault strikes, and strikes until told to stop.

    Args:
        strike: does a fault of a kind; False when there was nothing to strike at.
    """

    def __init__(self, agenda: Agenda, seed: int, strike: Callable[[str, Random], bool]) -> None:
        self._agenda = agenda
        self._seed = seed
        self._strike = strike
        self._is_over = False
        self.counts: dict[str, int] = {}

    def begin(self, kind: str, rate: float) -> None:
        """Strike so often an hour, from now on."""
        if rate > 0:
            self._plan(kind, rate / _HOUR_S, Random(f"{self._seed}/{kind}"))

    def end(self) -> None:
        """Strike no more."""
        self._is_over = True

    def _plan(self, kind: str, rate: float, chance: Random) -> None:
        at_s = trio.current_time() + chance.expovariate(rate)
        self._agenda.at(at_s, lambda: self._befall(kind, rate, chance))

    def _befall(self, kind: str, rate: float, chance: Random) -> None:
        if self._is_over:
            return
        if self._strike(kind, chance):
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._plan(kind, rate, chance)
