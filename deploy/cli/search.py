"""`envs-node search`: find verified, distinct successes."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from envs_node import __version__
from envs_node.deploy.cli.console import (
    complain,
    run_until_interrupted,
    show,
    tell,
    watching,
)
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.verb import (
    Verb,
    find_tasks,
    load_configured,
    require_checker,
    require_host,
    run_path,
)
from envs_node.deploy.conduct import conduct_at, conduct_here, run_request
from envs_node.deploy.config import (
    Config,
    ConfigError,
    DesktopSettings,
    PolicySettings,
    check_config,
)
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.run_folder import RunFolder, RunFolderError, write_json
from envs_node.deploy.summary import Summary, summarise_search
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress
from envs_node.messages.tasks import Task


class Search(Verb, frozen=True, kw_only=True):
    """Find verified, distinct successes and keep them in a ledger."""

    tasks: tyro.conf.Positional[str] = "train"
    """A task file, a folder of them, or the bundled sets `train` or `held-out`."""
    instances: int = 2
    """Instances of each bundled template."""
    task_seed: int = 0
    """Which instances of the bundled templates."""
    run_folder: Annotated[Path | None, tyro.conf.arg(name="run")] = None
    """The run's folder; `runs/search-<time>` unless given."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with a run that was stopped or died."""
    head: str = ""
    """Address of a head to search on; without it, this process does everything."""
    json: bool = False
    """Print the summary as JSON."""
    config: Path | None = None
    """A TOML file with defaults."""
    desktop: DesktopSettings = DesktopSettings()
    policy: PolicySettings = PolicySettings()
    search: SearchSettings = SearchSettings()

    @classmethod
    def configured(cls, config: Config) -> Search:
        """With the defaults of a configuration."""
        return cls(desktop=config.desktop, policy=config.policy, search=config.search)

    def run(self) -> int:
        """Search, and print the summary."""
        config = Config(desktop=self.desktop, policy=self.policy, search=self.search)
        check_config(config)
        if self.resume is not None and self.head:
            raise ConfigError("--resume goes on with a run in this process: leave --head out")
        if self.resume is not None:
            folder = RunFolder.open(self.resume)
            config = folder.manifest().config
            tasks: tuple[Task, ...] = folder.load_tasks()
        else:
            folder = RunFolder(run_path(self.run_folder, "search"))
            tasks = find_tasks(self.tasks, self.instances, self.task_seed, require_checker())
        began = time.monotonic()
        progress = self._conduct(folder, config, tasks)
        summary = Summary(
            run=folder.run,
            version=__version__,
            search=summarise_search(progress, max(progress.desktops, 1)),
            wall_s={"search": round(time.monotonic() - began, 1)},
        )
        if not self.head:
            write_json(folder.summary, summary)
        show(summary, as_text(summary), as_json=self.json)
        if self.head:
            tell(f"the head keeps the run: see `envs-node ledger ls` in its folder {folder.run}")
        else:
            tell(f"the run is in {folder.path}: see `envs-node ledger ls {folder.path}`")
        refused = [task for task in progress.tasks if task.state == "refused"]
        for task in refused:
            complain(
                f"{task.task_id} was not searched: {task.detail}; mend the task or leave it out"
            )
        return 2 if refused and len(refused) == len(progress.tasks) else 0

    def _conduct(self, folder: RunFolder, config: Config, tasks: tuple[Task, ...]) -> Progress:
        resumed = self.resume is not None
        request = run_request(folder.run, config, tasks, is_resumed=resumed)
        hint = f"go on with `envs-node search --resume {folder.path}`"
        with watching("search", config.search.leaves_task_max) as watch:
            if self.head:
                return run_until_interrupted(
                    functools.partial(conduct_at, self.head, request, watch), hint
                )
            return search_here(
                folder, config, request_tasks=tasks, watch=watch, hint=hint, is_resumed=resumed
            )


def search_here(
    folder: RunFolder,
    config: Config,
    *,
    request_tasks: tuple[Task, ...],
    watch: Any,
    hint: str,
    is_resumed: bool = False,
) -> Progress:
    """Do a run in this process, after checking everything that can be checked beforehand.

    Raises:
        EnvsError: the folder, the host, the checker or the policy is not fit; nothing was started.
    """
    if not is_resumed and folder.path.exists():
        raise RunFolderError(
            f"{folder.path} exists; choose another with --run, or go on with it by --resume"
        )
    checker = require_checker()
    policy = load_configured(config.policy)
    require_host(folder.path.parent)
    request = run_request(folder.run, config, request_tasks, is_resumed=is_resumed)
    conduct = functools.partial(
        conduct_here,
        request,
        watch,
        config=config,
        root=folder.path.parent,
        policy=policy,
        checker=checker,
    )
    with keep_logs(node="all", run_id=folder.run, folder=folder.logs, to_stderr=False):
        return run_until_interrupted(conduct, hint)
