"""What verbs share that do a run: their options, and doing it in this process."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Self

import tyro

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.room import JournalSettings
from envs_node.deploy.checker_origin import CheckerSettings
from envs_node.deploy.cli.console import run_until_interrupted
from envs_node.deploy.cli.verb import Verb, load_configured, require_checker, require_host
from envs_node.deploy.conduct import Watch, conduct_here, run_request
from envs_node.deploy.config import (
    Config,
    DesktopSettings,
    PolicySettings,
)
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.deploy.sweep import owning
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress
from envs_node.messages.tasks import Task


class RunVerb(Verb, frozen=True, kw_only=True):
    """Base of the verbs that do a run."""

    run_folder: Annotated[Path | None, tyro.conf.arg(name="run")] = None
    """The run's folder; `runs/<verb>-<time>` unless given."""
    json: bool = False
    """Print the summary as JSON."""
    config: Path | None = None
    """A TOML file with defaults."""
    desktop: DesktopSettings = DesktopSettings()
    policy: PolicySettings = PolicySettings()
    checker: CheckerSettings = CheckerSettings()
    search: SearchSettings = SearchSettings()
    journal: JournalSettings = JournalSettings()

    @classmethod
    def configured(cls, config: Config) -> Self:
        """With the defaults of a configuration."""
        return cls(
            desktop=config.desktop,
            policy=config.policy,
            checker=config.checker,
            search=config.search,
            journal=config.journal,
        )


def run_here(
    folder: RunFolder,
    config: Config,
    *,
    request_tasks: tuple[Task, ...],
    watch: Watch,
    hint: str,
    is_resumed: bool = False,
    is_forced: bool = False,
) -> Progress:
    """Do a run in this process, after checking everything that can be checked beforehand.

    Raises:
        EnvsError: the folder, the host, the checker or the policy is not fit; nothing was started.
    """
    if not is_resumed and folder.path.exists():
        raise RunFolderError(
            f"{folder.path} exists; choose another with --run, or go on with it by --resume"
        )
    if is_resumed and folder.ledger.exists():
        LedgerStore(folder.ledger, is_read_only=True).close()
    checker = require_checker(config.checker.name)
    policy = load_configured(config.policy)
    require_host(folder.path.parent, config.desktop)
    request = run_request(
        folder.run, config, request_tasks, is_resumed=is_resumed, is_forced=is_forced
    )
    conduct = functools.partial(
        conduct_here,
        request,
        watch,
        config=config,
        root=folder.path.parent,
        policy=policy,
        checker=checker,
    )
    with (
        keep_logs(node="all", run_id=folder.run, folder=folder.logs, to_stderr=False),
        owning(f"all ({folder.run})"),
    ):
        return run_until_interrupted(conduct, hint)
