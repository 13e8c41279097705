"""The drift of a run: a table by application, and what differed first."""

from __future__ import annotations

from collections.abc import Sequence

from envs_node.deploy.cli.console import show
from envs_node.deploy.drift_report import AppDrift, DriftReport, report_drift
from envs_node.deploy.run_folder import RunFolder


def show_drift(folders: Sequence[RunFolder], *, as_json: bool) -> int:
    """Print the drift of runs.

    Raises:
        EnvsError: a journal is damaged.
    """
    reports = [report_drift(folder) for folder in folders]
    show(reports, "\n".join(map(_as_text, reports)), as_json=as_json)
    return 0


def _as_text(report: DriftReport) -> str:
    lines = [f"{report.run}: states of replays and copies, held against their records"]
    if not report.apps:
        lines.append("  nothing was replayed")
    for app in report.apps:
        lines += _app_lines(app)
    return "\n".join(lines)


def _app_lines(app: AppDrift) -> list[str]:
    share = (app.equal + app.masked) / app.states if app.states else 0.0
    first = (
        f"  {app.app:<28} {app.states} states of {app.branches} branches: {app.equal} equal, "
        f"{app.masked} masked, {app.diverged} diverged ({share:.1%} stand); {app.forked} of copies"
    )
    return [
        first,
        *(
            f"    {cause.branches} x {cause.difference} (see --branch {cause.example!r})"
            for cause in app.causes
        ),
    ]
