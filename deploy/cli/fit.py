"""`envs-node fit`: fit a policy on the ledger of a run."""

from __future__ import annotations

import functools
import hashlib
import time
from pathlib import Path

import tyro

from envs_node import __version__
from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.cli.console import run_until_interrupted, show, tell
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import Config, PolicySettings, check_config
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.run_folder import RunFolder, require_writable
from envs_node.deploy.summary import Summary
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import Fit as FitMessage
from envs_node.messages.fit import FitFailed, FitReport, FitSettings
from envs_node.policy.models.load import load_policy


class FitFailedError(EnvsError):
    """There is nothing to fit on, or no policy to fit."""


class Fit(Verb, frozen=True, kw_only=True):
    """Fit a policy on the certified successes of a run, one epoch, each shared step once."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or its ledger.sqlite."""
    out: Path | None = None
    """Folder of the fitted policy; `<run>/policy` unless given."""
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
    from envs_node.deploy.trainer import fit_here  # loads torch: seconds

    require_writable(out, "no policy can be kept")
    LedgerStore(ledger, is_read_only=True).close()
    load_policy(base)
    fit_id = hashlib.sha256(f"{ledger}\0{base}\0{out}".encode()).hexdigest()[:16]
    request = FitMessage(
        fit_id=fit_id, ledger=str(ledger), base=str(base), out=str(out), settings=settings
    )
    hint = "the same command goes on from the last checkpoint"
    with keep_logs(node="trainer"):
        answer = run_until_interrupted(functools.partial(fit_here, request), hint)
    if isinstance(answer, FitFailed):
        raise FitFailedError(answer.reason)
    return answer.report
