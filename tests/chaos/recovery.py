"""How long it took until what was hit was well again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tests.chaos.probe import Probe
from tests.chaos.storm import Fault


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The recoveries of one kind of fault, in seconds from the signal."""

    what: str
    faults: int
    measured: int
    """The rest went unnoticed, or the run was over before."""
    p50_s: float
    p95_s: float
    max_s: float

    def line(self) -> str:
        """One line for people."""
        return (
            f"recovery of {self.what}: p50 {self.p50_s:.1f} s, p95 {self.p95_s:.1f} s, "
            f"max {self.max_s:.1f} s ({self.measured} of {self.faults} faults)"
        )


def measure(
    faults: Sequence[Fault], probe: Probe, starts_s: Mapping[str, Sequence[float]]
) -> tuple[Recovery, ...]:
    """Recoveries by what was hit and how.

    Args:
        starts_s: when the processes of each service were started.
    """
    times: dict[str, list[float | None]] = {}
    for fault in faults:
        is_kill = not fault.plan.freeze_s
        service = fault.plan.service.partition("-")[0]
        what = f"{service}, killed" if is_kill else f"{service}, frozen"
        if fault.kind != "role":
            what = f"a part of {what}"
        later = [at_s for at_s in starts_s[fault.plan.service] if at_s > fault.at_s]
        restarted_s = min(later, default=0.0) if is_kill and fault.kind == "role" else 0.0
        times.setdefault(what, []).append(probe.recovery_s(fault, restarted_s))
    return tuple(_recovery(what, times[what]) for what in sorted(times))


def _recovery(what: str, times: Sequence[float | None]) -> Recovery:
    known = sorted(time for time in times if time is not None)
    return Recovery(
        what=what,
        faults=len(times),
        measured=len(known),
        p50_s=_quantile(known, 0.5),
        p95_s=_quantile(known, 0.95),
        max_s=max(known, default=0.0),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value that a share of them does not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
