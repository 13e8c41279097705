"""`envs-node eval`: how often does a policy succeed?"""

from __future__ import annotations

import time

import msgspec
import tyro

from envs_node import __version__
from envs_node.deploy.cli.console import show, tell, watching
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.run import RunVerb, run_here
from envs_node.deploy.cli.task_source import find_tasks
from envs_node.deploy.cli.verb import require_checker, run_path
from envs_node.deploy.config import Config, ConfigError, check_config
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import EvalSummary, Summary, summarise_eval
from envs_node.messages.tasks import Task


class Eval(RunVerb, frozen=True, kw_only=True):
    """Measure a policy: greedy, pass@1 and pass@k, with 95 % intervals."""

    tasks: tyro.conf.Positional[str] = "held-out"
    """A task file, a folder of them, or the bundled sets `train`, `validation` or `held-out`."""
    instances: int = 1
    """Instances of each bundled template."""
    task_seed: int = 0
    """Which instances of the bundled templates."""
    quarantined: bool = False
    """Take tasks, too, that `envs-node tasks admit` keeps out."""
    rollouts: int = 4
    """Sampled rollouts a task, beside one greedy."""
    temperature: float = 1.0
    """Of the sampled rollouts: 1 samples the policy as it is."""
    k: int = 4
    """The k of pass@k."""

    def run(self) -> int:
        """Evaluate, and print the summary."""
        search = msgspec.structs.replace(
            self.search, rollouts=self.rollouts, temperature=self.temperature
        )
        config = Config(
            desktop=self.desktop,
            policy=self.policy,
            checker=self.checker,
            search=search,
            journal=self.journal,
        )
        check_config(config)
        if self.rollouts < 1 or self.k < 1:
            given = f"--rollouts is {self.rollouts} and --k is {self.k}"
            raise ConfigError(f"{given}; pass@k needs at least 1 of each")
        if self.k > self.rollouts:
            tell(f"--k is {self.k} and --rollouts {self.rollouts}: pass@{self.rollouts} is told")
        tasks = find_tasks(
            self.tasks,
            self.instances,
            self.task_seed,
            require_checker(self.checker.name),
            quarantined=self.quarantined,
        )
        folder = RunFolder(run_path(self.run_folder, "eval"))
        began = time.monotonic()
        result = evaluate(folder, config, tasks, k=min(self.k, self.rollouts), title="eval")
        wall_s = {"eval": round(time.monotonic() - began, 1)}
        summary = Summary(run=folder.run, version=__version__, eval_after=result, wall_s=wall_s)
        write_json(folder.summary, summary)
        show(summary, as_text(summary), as_json=self.json)
        return 0


def evaluate(
    folder: RunFolder, config: Config, tasks: tuple[Task, ...], *, k: int, title: str
) -> EvalSummary:
    """Roll a policy out on tasks, in this process.

    Raises:
        EnvsError: see `run_here`.
    """
    with watching(title) as watch:
        hint = f"an eval starts anew: remove {folder.path} and run it again"
        progress = run_here(folder, config, request_tasks=tasks, watch=watch, hint=hint)
    return summarise_eval(progress, str(config.policy.path()), config.search.rollouts, k)
