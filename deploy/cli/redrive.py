"""A recorded branch on a real desktop: the table of its drift, and its picture strip."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import msgspec

from envs_node.deploy.cli.console import complain, run_until_interrupted, show, tell
from envs_node.deploy.cli.verb import require_checker, require_host
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.drift import Drift, Pictures, is_equal, measure, strip_rows
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.redrive import (
    RedriveError,
    Redriven,
    find_leaf,
    find_task,
    recorded_pictures,
    redrive,
)
from envs_node.deploy.run_folder import RunFolder, RunFolderError, require_writable
from envs_node.deploy.strip import draw_strip
from envs_node.deploy.sweep import owning
from envs_node.messages.search import LeafReached


class RedriveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of driving a branch again."""

    branch_id: str
    lease: int
    kind: str
    is_equal: bool
    diverged_at: int
    """The first step that led to another state, from 1, 0 for the start; -1 for none."""
    verdict_then: str
    verdict_now: str
    drifts: tuple[Drift, ...]
    strip: str = ""
    """File of the pictures."""


def redrive_branch(
    folder: RunFolder, branch: str, lease: int | None, out: Path | None, *, as_json: bool
) -> int:
    """Drive it, print the table, draw the strip; 1 when it differs.

    Raises:
        EnvsError: no such branch, no task, or a host that cannot; nothing was started.
    """
    if not folder.journal.is_dir():
        raise RunFolderError(f"{folder.path} is no run: it has no journal")
    leaf = find_leaf(folder, branch, lease)
    task = find_task(folder, leaf)
    if out is not None:
        require_writable(out.parent, "no picture can be kept")
    checker = require_checker()
    settings = settings_of(folder, leaf)
    require_host(Path(tempfile.gettempdir()), settings)  # where a desktop keeps what it writes
    then_seen = recorded_pictures(folder, leaf)
    tell(f"driving {leaf.branch_id}, {len(leaf.steps)} steps, on a desktop of its own")
    drive = functools.partial(redrive, leaf, task, checker, settings)
    try:
        with keep_logs(node="redrive", level="warning"), owning("redrive"):
            again = run_until_interrupted(drive, "nothing was changed: run it again")
    except RedriveError as error:
        complain(str(error))
        return 1
    drifts = measure(leaf, again.now, then_seen, again.pictures)
    report = _report(again, drifts, out)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(_draw(again, drifts, then_seen, report))
    show(report, _as_text(report), as_json=as_json)
    return 0 if report.is_equal else 1


def settings_of(folder: RunFolder, leaf: LeafReached) -> DesktopSettings:
    """What the desktop must be like that the branch was seen on; a lone one, and filmed by nobody.

    The folder of a desktop node says nothing of its desktops but how large the screen was.
    """
    try:
        desktop = folder.manifest().config.desktop
    except RunFolderError:
        desktop = DesktopSettings()
    if leaf.steps:
        seen = leaf.steps[0].observation
        desktop = msgspec.structs.replace(desktop, width=seen.width, height=seen.height)
    return msgspec.structs.replace(desktop, count=1, warm=0, fork="off", record=False)


def _report(again: Redriven, drifts: tuple[Drift, ...], out: Path | None) -> RedriveReport:
    leaf = again.recorded
    strayed = (d.step for d in drifts if d.outcome in ("diverged", "not reached"))
    return RedriveReport(
        branch_id=leaf.branch_id,
        lease=leaf.lease,
        kind=leaf.kind,
        is_equal=is_equal(leaf, again.now, drifts),
        diverged_at=next(strayed, -1),
        verdict_then=_verdict(leaf),
        verdict_now=_verdict(again.now),
        drifts=drifts,
        strip="" if out is None else str(out),
    )


def _draw(
    again: Redriven, drifts: tuple[Drift, ...], then_seen: Pictures, report: RedriveReport
) -> bytes:
    return draw_strip(
        strip_rows(again.recorded, again.now, drifts, then_seen, again.pictures),
        heading=f"{report.branch_id} ({report.kind}), lease {report.lease}",
        ending=(
            f"verdict then: {report.verdict_then}",
            f"verdict now:  {report.verdict_now}",
            _conclusion(report),
        ),
    )


def _as_text(report: RedriveReport) -> str:
    lines = [f"{report.branch_id} ({report.kind}), lease {report.lease}"]
    for drift in report.drifts:
        name = f"{drift.step}. {drift.action}" if drift.step else "start"
        lines.append(f"  {name:<44} {drift.outcome:<11} {drift.words()}")
    lines += [f"verdict then  {report.verdict_then}", f"verdict now   {report.verdict_now}"]
    lines.append(_conclusion(report))
    if report.strip:
        lines.append(f"pictures in {report.strip}")
    return "\n".join(lines)


def _conclusion(report: RedriveReport) -> str:
    if report.is_equal:
        return "equal to the end"
    if report.diverged_at >= 0:
        return f"diverged at {f'step {report.diverged_at}' if report.diverged_at else 'the start'}"
    return "equal states, another verdict"


def _verdict(leaf: LeafReached) -> str:
    if leaf.verdict is None:
        return f"none: {leaf.detail or leaf.reason}"
    reason = f": {leaf.verdict.reason}" if leaf.verdict.reason else ""
    score = "" if leaf.verdict.score is None else f" {leaf.verdict.score:g}"
    return f"{leaf.verdict.verdict}{score}{reason}"
