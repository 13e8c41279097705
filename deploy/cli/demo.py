"""`envs-node demo`: the main job, end to end, on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node import __version__
from envs_node.deploy.cli.console import show, tell, watching
from envs_node.deploy.cli.evaluate import evaluate
from envs_node.deploy.cli.fit import fit_run
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.cli.run import RunVerb, run_here
from envs_node.deploy.cli.verb import run_path
from envs_node.deploy.config import Config, ConfigError, check_config
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import EvalSummary, Summary, summarise_search
from envs_node.deploy.tasks.bundle import INSTANCES_MAX, TEMPLATES, bundled_tasks
from envs_node.messages.fit import FitSettings
from envs_node.messages.tasks import Task

_ROLLOUTS = 4
_TEMPLATES = tuple(template for template in TEMPLATES if template.is_in_demo)


class Demo(RunVerb, frozen=True, kw_only=True):
    """Search the bundled tasks, fit the policy on what was found, and measure what it learned."""

    instances: int = 2
    """Instances of each train template; a LibreOffice one costs six times as much and has one."""
    held_out: int = 1
    """Held-out instances of each template, and of LibreOffice's held-out templates."""
    fit: FitSettings = FitSettings()

    @classmethod
    def configured(cls, config: Config) -> Demo:
        """With the defaults of a configuration."""
        verb = super().configured(config)
        return msgspec.structs.replace(verb, fit=config.fit)

    def run(self) -> int:
        """Search, fit, measure before and after, and print the summary."""
        for name, value in (("--instances", self.instances), ("--held-out", self.held_out)):
            if not 1 <= value <= INSTANCES_MAX:
                problem = f"it must be between 1 and {INSTANCES_MAX}"
                raise ConfigError(f"{name} is {value}; {problem}")
        config = Config(
            desktop=self.desktop,
            policy=self.policy,
            checker=self.checker,
            search=self.search,
            fit=self.fit,
            journal=self.journal,
        )
        check_config(config)
        folder = RunFolder(run_path(self.run_folder, "demo"))
        wall_s: dict[str, float] = {}
        tell(f"demo: the run is kept in {folder.path}")
        with _timed(wall_s, "search"), watching("search") as watch:
            progress = run_here(
                folder,
                config,
                request_tasks=_train_tasks(self.instances),
                watch=watch,
                hint=f"go on with `envs-node search --resume {folder.path}`",
            )
        fitted = folder.path / "policy"
        with _timed(wall_s, "fit"):
            report = fit_run(folder.ledger, self.policy.path(), fitted, self.fit)
        with _timed(wall_s, "eval before"):
            before = self._measure(folder, config, self.policy.path(), "eval-before")
        with _timed(wall_s, "eval after"):
            after = self._measure(folder, config, fitted, "eval-after")
        wall_s["all"] = round(sum(wall_s.values()), 1)
        summary = Summary(
            run=folder.run,
            version=__version__,
            search=summarise_search(progress, self.desktop.count),
            fit=report,
            eval_before=before,
            eval_after=after,
            wall_s=wall_s,
        )
        write_json(folder.summary, summary)
        show(summary, as_text(summary), as_json=self.json)
        tell(
            f"look at {folder.summary}, `envs-node ledger ls {folder.path}`, "
            f"`envs-node replay {folder.path}`"
        )
        return 0

    def _measure(self, folder: RunFolder, config: Config, policy: Path, name: str) -> EvalSummary:
        search = msgspec.structs.replace(config.search, rollouts=_ROLLOUTS, temperature=1.0)
        settings = msgspec.structs.replace(config.policy, folder=str(policy))
        config = msgspec.structs.replace(config, search=search, policy=settings)
        tasks = _held_out_tasks(self.held_out)
        return evaluate(RunFolder(folder.path / name), config, tasks, k=_ROLLOUTS, title=name)


def _train_tasks(instances: int) -> tuple[Task, ...]:
    one_each = {task.id for task in bundled_tasks("train", 1, templates=_TEMPLATES)}
    tasks = bundled_tasks("train", instances, templates=_TEMPLATES)
    return tuple(task for task in tasks if not _is_office(task) or task.id in one_each)


def _held_out_tasks(instances: int) -> tuple[Task, ...]:
    trained = {task.template for task in bundled_tasks("train", 1, templates=_TEMPLATES)}
    tasks = bundled_tasks("held-out", instances, templates=_TEMPLATES)
    return tuple(task for task in tasks if not _is_office(task) or task.template not in trained)


def _is_office(task: Task) -> bool:
    return any(app.startswith("libreoffice") for app in task.apps)


@contextmanager
def _timed(wall_s: dict[str, float], phase: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    wall_s[phase] = round(time.monotonic() - began, 1)
