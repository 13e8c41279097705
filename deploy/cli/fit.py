"""`envs-node fit`: fit a policy on the ledger of a run."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from envs_node import __version__
from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.cli.console import run_until_interrupted, show, tell
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import Config, PolicySettings, check_config
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.run_folder import RunFolder, require_writable
from envs_node.deploy.summary import Summary
from envs_node.deploy.sweep import owning
from envs_node.deploy.trainer import OnFit, fit_at, fit_here
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import Fit as FitMessage
from envs_node.messages.fit import FitFailed, FitReport, FitRunning, FitSettings
from envs_node.policy.models.load import load_policy

_TOLD_EVERY_S = 10.0
_HINT = "the same command goes on from the last checkpoint"


class FitFailedError(EnvsError):
    """There is nothing to fit on, or no policy to fit."""


class Fit(Verb, frozen=True, kw_only=True):
    """Fit a policy on the certified successes of a run, one epoch, each shared step once."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or its ledger.sqlite."""
    out: Path | None = None
    """Folder of the fitted policy; `<run>/policy` unless given."""
    head: str = ""
    """Address of a head that knows a trainer; without it, this process fits."""
    json: bool = False
    """Print the report as JSON."""
    config: Path | None = None
    """A TOML file with defaults."""
    policy: PolicySettings = PolicySettings()
    fit: FitSettings = FitSettings()

    @classmethod
    def configured(cls, config: Config) -> Fit:
        """With the defaults of a configuration; only the folder has none."""
        return cls(folder=tyro.MISSING, policy=config.policy, fit=config.fit)

    def run(self) -> int:
        """Fit, and print the report."""
        check_config(Config(policy=self.policy, fit=self.fit))
        ledger = self.folder if self.folder.is_file() else RunFolder(self.folder).ledger
        out = self.out or ledger.parent / "policy"
        began = time.monotonic()
        if self.head:
            report = _fit_there(self.head, _request(ledger, self.policy.path(), out, self.fit))
        else:
            report = fit_run(ledger, self.policy.path(), out, self.fit)
        summary = Summary(
            run=ledger.parent.name,
            version=__version__,
            fit=report,
            wall_s={"fit": round(time.monotonic() - began, 1)},
        )
        show(summary, as_text(summary), as_json=self.json)
        tell(f"the fitted policy is in {out}: see `envs-node eval --policy.folder {out}`")
        return 0


def fit_run(ledger: Path, base: Path, out: Path, settings: FitSettings) -> FitReport:
    """Fit in this process, going on from a checkpoint if there is one.

    Raises:
        EnvsError: no ledger, no policy, or nothing to fit on.
    """
    require_writable(out, "no policy can be kept")
    LedgerStore(ledger, is_read_only=True).close()
    load_policy(base)
    request = _request(ledger, base, out, settings)
    with keep_logs(node="trainer"), owning("trainer"), _watching() as watch:
        answer = run_until_interrupted(functools.partial(fit_here, request, watch), _HINT)
    if isinstance(answer, FitFailed):
        raise FitFailedError(answer.reason)
    return answer.report


def _fit_there(url: str, request: FitMessage) -> FitReport:
    """Have the trainer that this head knows do it; the paths are looked for on its machine."""
    with keep_logs(node="client"), _watching() as watch:
        answer = run_until_interrupted(functools.partial(fit_at, url, request, watch), _HINT)
    if isinstance(answer, FitFailed):
        raise FitFailedError(answer.reason)
    return answer.report


def _request(ledger: Path, base: Path, out: Path, settings: FitSettings) -> FitMessage:
    """Each command is a request of its own; that a fit was done before is seen in its folder."""
    ledger, base, out = ledger.resolve(), base.resolve(), out.resolve()
    return FitMessage(
        fit_id=secrets.token_hex(8),
        ledger=str(ledger),
        base=str(base),
        out=str(out),
        settings=settings,
    )


@contextmanager
def _watching() -> Iterator[OnFit]:
    """Show how far a fit is while the block runs: a bar on a terminal, else a line now and then."""
    story = Console(stderr=True)
    if not story.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} steps"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=story) as bars:
        bar = bars.add_task("fit", total=None)

        def watch(running: FitRunning) -> None:
            steps = running.steps or None
            bars.update(bar, total=steps, completed=running.step, description=_what(running))

        yield watch


class _Lines:
    """Progress for a log file."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()

    def __call__(self, running: FitRunning) -> None:
        """Tell, when it is time."""
        if time.monotonic() - self._told_s >= _TOLD_EVERY_S:
            self._told_s = time.monotonic()
            tell(f"{_what(running)}: step {running.step} of {running.steps or 'an unknown number'}")


def _what(running: FitRunning) -> str:
    return f"waiting for the fit {running.waits_for}" if running.waits_for else "fit"
