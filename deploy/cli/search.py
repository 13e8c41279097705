"""`envs-node search`: find verified, distinct successes."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Annotated

import tyro

from envs_node import __version__
from envs_node.deploy.cli.console import complain, run_until_interrupted, show, tell, watching
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.run import RunVerb, run_here
from envs_node.deploy.cli.task_source import find_tasks, without_infeasible
from envs_node.deploy.cli.verb import require_checker, run_path
from envs_node.deploy.conduct import conduct_at, run_request
from envs_node.deploy.config import Config, ConfigError, check_config, load_config
from envs_node.deploy.resume import settings_to_go_on
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import Summary, read_summary, summarise_search, with_search
from envs_node.messages.search import LossCause, Progress
from envs_node.messages.tasks import Task

_MEND = "mend the task or leave it out"
_WAYS_OUT: dict[LossCause, str] = {
    "desktop": "the desktops broke, not the task: see `envs-node doctor`, then search again",
    "verifier": "the checker broke: see `envs-node doctor`, then search again",
    "policy": "no policy answered: see `envs-node status`, then search again",
    "head": "the head was away: see `envs-node status`, then search again",
}
"""By whose fault it was; for any other, it is the task's."""


class Search(RunVerb, frozen=True, kw_only=True):
    """Find verified, distinct successes and keep them in a ledger."""

    tasks: tyro.conf.Positional[str] = "train"
    """A task file, a folder of them, or the bundled sets `train`, `validation` or `held-out`."""
    instances: int = 2
    """Instances of each bundled template."""
    task_seed: int = 0
    """Which instances of the bundled templates."""
    quarantined: bool = False
    """Take tasks, too, that `envs-node tasks admit` keeps out."""
    infeasible: bool = False
    """Take tasks, too, whose right answer is to give up: they cost desktops and teach nothing."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with a run that was stopped or died: its folder, or with `--head` its name there."""
    force: bool = False
    """Go on with a run though settings, policy, checker or version are not those it began with."""
    head: str = ""
    """Address of a head to search on; without it, this process does everything."""

    def run(self) -> int:
        """Search, and print the summary."""
        config = Config(
            desktop=self.desktop,
            policy=self.policy,
            checker=self.checker,
            search=self.search,
            journal=self.journal,
        )
        check_config(config)
        if self.force and self.resume is None:
            raise ConfigError("--force goes on with a run of old: give --resume RUN")
        tasks: tuple[Task, ...] = ()
        if self.resume is None:
            folder = RunFolder(run_path(self.run_folder, "search"))
            tasks = find_tasks(
                self.tasks,
                self.instances,
                self.task_seed,
                require_checker(self.checker.name),
                quarantined=self.quarantined,
            )
            tasks = tasks if self.infeasible else without_infeasible(tasks, self.tasks)
        else:
            folder, config = self._resumed(self.resume, config)
        is_ours = self.resume is not None and not self.head
        earlier = read_summary(folder) if is_ours else Summary(run=folder.run, version=__version__)
        began = time.monotonic()
        progress = self._conduct(folder, config, tasks)
        found = summarise_search(progress, max(progress.desktops, 1))
        summary = with_search(earlier, found, time.monotonic() - began)
        if not self.head:
            write_json(folder.summary, summary)
        show(summary, as_text(summary), as_json=self.json)
        if self.head:
            tell(f"the head has the run: there, `envs-node ledger ls <its --folder>/{folder.run}`")
        else:
            tell(f"the run is in {folder.path}: see `envs-node ledger ls {folder.path}`")
        refused = [task for task in progress.tasks if task.state == "refused"]
        for task in refused:
            way_out = _WAYS_OUT.get(task.cause, _MEND)
            complain(f"{task.task_id} was not searched: {task.detail}; {way_out}")
        if not refused or len(refused) < len(progress.tasks):
            return 0
        return 1 if any(task.cause in _WAYS_OUT for task in refused) else 2

    def _resumed(self, run: Path, given: Config) -> tuple[RunFolder, Config]:
        """The run to go on with, and its settings; on another head it keeps those it has there."""
        defaults = load_config(self.config)
        if self.head:
            return RunFolder(Path(run.name)), settings_to_go_on(
                defaults, given, defaults, is_forced=self.force
            )
        folder = RunFolder.open(run)
        began = folder.manifest().config
        return folder, settings_to_go_on(began, given, defaults, is_forced=self.force)

    def _conduct(self, folder: RunFolder, config: Config, tasks: tuple[Task, ...]) -> Progress:
        resumed = self.resume is not None
        where = f"--head {self.head} --resume {folder.run}" if self.head else None
        hint = f"go on with `envs-node search {where or f'--resume {folder.path}'}`"
        with watching("search") as watch:
            if self.head:
                request = run_request(
                    folder.run, config, tasks, is_resumed=resumed, is_forced=self.force
                )
                conduct = functools.partial(
                    conduct_at,
                    self.head,
                    request,
                    watch,
                    folder=client_folder(self.resume or folder.path),
                    silence_s=load_config(self.config).link.silence_s,
                )
                return run_until_interrupted(conduct, hint)
            return run_here(
                folder,
                config,
                request_tasks=tasks,
                watch=watch,
                hint=hint,
                is_resumed=resumed,
                is_forced=self.force,
            )


def client_folder(run: Path) -> Path:
    """Where a head's authority is looked for: beside the run, or where all clients look."""
    return run.parent if (run.parent / "authority").is_dir() else Path("runs")
