"""What a simulation says of the product: how long, how busy, what befell it, how it recovered."""

from __future__ import annotations

import textwrap

import msgspec

from envs_node.deploy.sim.command import command_of
from envs_node.deploy.sim.invariants import INVARIANTS
from envs_node.deploy.sim.simulation import Outcome
from envs_node.deploy.sim.trial import Trial

_KINDS_TOLD = 5


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How long the struck were not heard of, in virtual seconds."""

    count: int
    p50_s: float
    p95_s: float


class SimReport(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one simulation."""

    seed: int
    desktops: int
    tasks: int
    virtual_s: float
    process_s: float
    digest: int
    """Of everything that was sent: equal settings, equal digest."""
    branches: int
    steps: int
    """Actions that desktops performed."""
    resets: int
    distinct: int
    """Certified successes, each path once."""
    distinct_hour: float
    """An hour of virtual time."""
    busy_share: float
    """Of the desktops' time: on a branch that came to its end."""
    queued_p50_ms: float
    """How long messages waited for the head."""
    queued_p99_ms: float
    messages: dict[str, int]
    kinds: dict[str, int]
    """Messages that arrived, by the name of their class, the most frequent first."""
    faults: dict[str, int]
    recoveries: dict[str, Recovery]
    reassigned: int
    refused: int
    """Reports of lapsed leases."""
    invariants: tuple[str, ...]
    """Those that were checked."""
    wrong: tuple[str, ...]
    repeat: str
    """The command that simulates the same again."""


def make_report(trial: Trial) -> SimReport:
    """Count what a trial came to."""
    outcome, settings = trial.outcome, trial.outcome.settings
    tasks = outcome.progress.tasks if outcome.progress is not None else ()
    distinct = sum(task.distinct for task in tasks)
    duration_s = max(outcome.duration_s, 1e-9)
    queued_s = sorted(outcome.queued_s)
    return SimReport(
        seed=settings.seed,
        desktops=settings.desktops,
        tasks=settings.world.tasks,
        virtual_s=outcome.duration_s,
        process_s=trial.wall_s,
        digest=outcome.digest,
        branches=sum(task.branches for task in tasks),
        steps=outcome.performed,
        resets=outcome.resets,
        distinct=distinct,
        distinct_hour=distinct * 3600 / duration_s,
        busy_share=_busy_s(outcome) / (duration_s * settings.desktops),
        queued_p50_ms=_quantile(queued_s, 0.5) * 1000,
        queued_p99_ms=_quantile(queued_s, 0.99) * 1000,
        messages=outcome.messages,
        kinds=outcome.kinds,
        faults=outcome.faults,
        recoveries={
            kind: Recovery(
                count=len(times_s),
                p50_s=_quantile(sorted(times_s), 0.5),
                p95_s=_quantile(sorted(times_s), 0.95),
            )
            for kind, times_s in sorted(outcome.watch.recoveries_s.items())
        },
        reassigned=sum(task.reassigned for task in tasks),
        refused=sum(task.refused for task in tasks),
        invariants=INVARIANTS if trial.is_compared else INVARIANTS[:-1],
        wrong=trial.wrong,
        repeat=command_of(settings),
    )


def as_text(report: SimReport) -> str:
    """A report for people."""
    most = list(report.kinds.items())[:_KINDS_TOLD]
    lines = [
        f"seed {report.seed}: {report.desktops} desktops, {report.tasks} tasks, "
        f"{report.virtual_s:.0f} s of virtual time in {report.process_s:.1f} s",
        f"  work        {report.branches} branches, {report.steps} steps, {report.resets} resets; "
        f"{report.reassigned} sent out again, {report.refused} late reports refused",
        f"  throughput  {report.distinct} distinct successes, {report.distinct_hour:.0f} an hour; "
        f"desktops busy {report.busy_share:.0%} of the time",
        f"  head        {report.messages['carried']} messages carried; queued "
        f"{report.queued_p50_ms:.1f} ms (p50), {report.queued_p99_ms:.1f} ms (p99)",
        f"  most of them {', '.join(f'{n} {kind}' for kind, n in most)}",
    ]
    befell = {kind: n for kind, n in (report.faults | report.messages).items() if n}
    befell.pop("carried", None)
    if befell:
        words = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in befell.items())
        lines.append(f"  faults      {words}")
    for kind, recovery in report.recoveries.items():
        lines.append(
            f"  recovery    {kind.replace('_', ' ')}: {recovery.p50_s:.1f} s (p50), "
            f"{recovery.p95_s:.1f} s (p95) of {recovery.count}"
        )
    lines.append(f"  checked     {'; '.join(report.invariants)}")
    lines += [f"  WRONG       {words}" for words in report.wrong]
    if report.wrong:
        lines.append(f"  repeat with {report.repeat}")
    return "\n".join(_folded(line) for line in lines)


def _folded(line: str) -> str:
    """A line of many items, within the width of a page; a command to be copied stays one line."""
    if line.startswith("  repeat with"):
        return line
    return textwrap.fill(line, 100, subsequent_indent=" " * 14, break_on_hyphens=False)


def _busy_s(outcome: Outcome) -> float:
    """What the branches that came to their end took, by their own account."""
    reports = (leaf for task in outcome.watch.tasks.values() for leaf in task.accepted.values())
    return sum(leaf.cost.wall_ms for leaf in reports) / 1000


def _quantile(ordered: list[float], share: float) -> float:
    if not ordered:
        return 0.0
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
