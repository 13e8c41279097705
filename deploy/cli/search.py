"""`envs-node search`: find verified, distinct successes."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Annotated

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
from envs_node.deploy.cli.run import RunVerb, run_here
from envs_node.deploy.cli.verb import (
    find_tasks,
    require_checker,
    run_path,
)
from envs_node.deploy.conduct import conduct_at, run_request
from envs_node.deploy.config import (
    Config,
    ConfigError,
    check_config,
)
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import Summary, summarise_search
from envs_node.messages.search import Progress
from envs_node.messages.tasks import Task


class Search(RunVerb, frozen=True, kw_only=True):
    """Find verified, distinct successes and keep them in a ledger."""

    tasks: tyro.conf.Positional[str] = "train"
    """A task file, a folder of them, or the bundled sets `train` or `held-out`."""
    instances: int = 2
    """Instances of each bundled template."""
    task_seed: int = 0
    """Which instances of the bundled templates."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with a run that was stopped or died."""
    head: str = ""
    """Address of a head to search on; without it, this process does everything."""

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
            tell(f"the head has the run: there, `envs-node ledger ls <its --folder>/{folder.run}`")
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
        hint = f"go on with `envs-node search --resume {folder.path}`"
        with watching("search") as watch:
            if self.head:
                request = run_request(folder.run, config, tasks)
                return run_until_interrupted(
                    functools.partial(conduct_at, self.head, request, watch), hint
                )
            return run_here(
                folder, config, request_tasks=tasks, watch=watch, hint=hint, is_resumed=resumed
            )
