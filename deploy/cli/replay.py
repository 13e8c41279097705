"""`envs-node replay`: re-run a journal; the same decisions, or the first that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.drift import show_drift
from envs_node.deploy.cli.redrive import redrive_branch
from envs_node.deploy.cli.stepping import step_on_terminal, step_text
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import ConfigError
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.replay import RecordedRun, ReplayReport, replay_run, run_at_once
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.deploy.stepping import step_through


class Replay(Verb, frozen=True, kw_only=True):
    """Re-run a run's journal against fresh actors and compare every decision.

    With --until or --step: stop at an entry, or at each. With --branch: drive it on a desktop. With
    --drift: how replays and copies compared with their records when the run was on.
    """

    folder: tyro.conf.Positional[Path]
    """A run's folder, or a desktop node's; runs inside it (evals of a demo) are replayed, too."""
    actor: str = ""
    """Only this actor, for example `search/mousepad-append-line-000`."""
    until: Annotated[int | None, tyro.conf.arg(metavar="SEQ")] = None
    """Stop at this entry of the journal, from 0, and show what its actor knows then."""
    step: bool = False
    """Go through the entries of one actor: what was heard, what was said then and now. Asks after
    each on a terminal; else prints them all."""
    branch: str = ""
    """Drive this branch again on a real desktop, for example `mousepad-append-line-000#3`."""
    lease: int | None = None
    """Of several reports of the branch that under this lease; the last that was judged unless
    given."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.png")] = None
    """Draw the branch there, recorded and now side by side."""
    drift: bool = False
    """By application, how the states of replays and copies compared with their records."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Replay; 1 when a decision or a state differs, or the journal is damaged.

        A drift is a report of what was, and 0 whatever it says.
        """
        self._check()
        if self.branch:
            return redrive_branch(
                RunFolder(self.folder), self.branch, self.lease, self.out, as_json=self.json
            )
        journals = sorted(self.folder.rglob("journal")) if self.folder.is_dir() else []
        if not journals:
            raise RunFolderError(f"{self.folder} is no run: it has no journal")
        if self.drift:
            return show_drift(
                [RunFolder(journal.parent) for journal in journals], as_json=self.json
            )
        own = self.folder / "journal"
        if own in journals and (self.step or self.actor or self.until is not None):
            journals = [own]  # a demo's folder holds the runs of its evals, too
        # Actors that live again tell their story again; it was told when the run was on.
        with keep_logs(node="replay", to_stderr=False):
            if self.step or self.until is not None:
                return self._step(journals)
            return self._replay(journals)

    def _check(self) -> None:
        if self.branch and (self.actor or self.step or self.until is not None):
            raise ConfigError("--branch drives a desktop: leave out --actor, --until and --step")
        if self.drift and (self.branch or self.actor or self.step or self.until is not None):
            raise ConfigError("--drift is of whole runs: leave out --branch, --actor and the like")
        if not self.branch and (self.out is not None or self.lease is not None):
            raise ConfigError("--out and --lease are of a branch: give --branch")
        if self.out is not None and self.out.suffix.lower() != ".png":
            raise ConfigError(f"--out {self.out} is drawn as PNG: name a file that ends in .png")

    def _replay(self, journals: list[Path]) -> int:
        reports = [
            run_at_once(replay_run, RunFolder(journal.parent), self.actor) for journal in journals
        ]
        show(reports, "\n".join(map(_as_text, reports)), as_json=self.json)
        is_same = not any(report.differences or report.damaged for report in reports)
        return 0 if is_same else 1

    def _step(self, journals: list[Path]) -> int:
        if len(journals) > 1:
            inside = ", ".join(str(journal.parent) for journal in journals)
            raise RunFolderError(f"{self.folder} holds several runs; name one of {inside}")
        run = RecordedRun(RunFolder(journals[0].parent))
        found = run_at_once(step_through, run, self.actor, self.until)
        if self.step and step_on_terminal(run, found, as_json=self.json):
            return 0 if found.is_sound else 1
        if self.step:
            show(found.steps, "\n".join(map(step_text, found.steps)), as_json=self.json)
        else:
            there = msgspec.structs.replace(found, steps=found.steps[-1:])
            lines = [*map(step_text, there.steps), *there.state]
            show(there, "\n".join(lines), as_json=self.json)
        return 0 if found.is_sound else 1


def _as_text(report: ReplayReport) -> str:
    lines = [
        f"{report.run}: {report.actors} actors heard {report.heard} messages and made "
        f"{report.decisions} decisions again; entries 0 to {report.entries - 1}"
    ]
    for difference in report.differences:
        lines.append(
            f"  DIFFERS {difference.actor}, decision {difference.decision}, entry "
            f"{difference.sequence}: {difference.where}"
        )
    if report.damaged:
        lines.append(f"  {report.damaged} journal entries are damaged: their checksum differs")
    if not report.differences:
        lines.append("  every decision is identical")
    return "\n".join(lines)
