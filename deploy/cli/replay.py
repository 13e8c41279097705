"""`envs-node replay`: re-run a journal; the same decisions, or the first that differs."""

from __future__ import annotations

from pathlib import Path

import trio
import tyro

from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.replay import ReplayReport, replay_run
from envs_node.deploy.run_folder import RunFolder, RunFolderError


class Replay(Verb, frozen=True, kw_only=True):
    """Re-run a run's journal against fresh actors and compare every decision."""

    folder: tyro.conf.Positional[Path]
    """A run's folder, or a desktop node's; runs inside it (evals of a demo) are replayed, too."""
    actor: str = ""
    """Only this actor, for example `search/mousepad-append-line-000`."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Replay; 1 when a decision differs or the journal is damaged."""
        journals = sorted(self.folder.rglob("journal")) if self.folder.is_dir() else []
        if not journals:
            raise RunFolderError(f"{self.folder} is no run: it has no journal")
        # Actors that live again tell their story again; it was told when the run was on.
        with keep_logs(node="replay", to_stderr=False):
            reports = [
                trio.run(replay_run, RunFolder(journal.parent), self.actor) for journal in journals
            ]
        show(reports, "\n".join(map(_as_text, reports)), as_json=self.json)
        is_same = not any(report.differences or report.damaged for report in reports)
        return 0 if is_same else 1


def _as_text(report: ReplayReport) -> str:
    lines = [
        f"{report.run}: {report.actors} actors heard {report.heard} messages and made "
        f"{report.decisions} decisions again"
    ]
    for difference in report.differences:
        lines.append(
            f"  DIFFERS {difference.actor}, decision {difference.decision}: {difference.where}"
        )
    if report.damaged:
        lines.append(f"  {report.damaged} journal entries are damaged: their checksum differs")
    if not report.differences:
        lines.append("  every decision is identical")
    return "\n".join(lines)
