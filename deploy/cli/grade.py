"""`envs-node tasks grade`: how often the built-in policy succeeds on each bundled template."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
import tyro

from envs_node.deploy.checker_origin import CheckerSettings
from envs_node.deploy.cli.console import show, tell, watching
from envs_node.deploy.cli.run import run_here
from envs_node.deploy.cli.task_source import TasksError
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import (
    Config,
    ConfigError,
    DesktopSettings,
    PolicySettings,
    check_config,
)
from envs_node.deploy.run_folder import RunFolder
from envs_node.deploy.tasks.bundle import INSTANCES_MAX, TEMPLATES, bundled_task, instance_of
from envs_node.deploy.tasks.grades import (
    GRADES,
    TemplateGrade,
    add_grades,
    measured,
)
from envs_node.deploy.tasks.template import Template
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress
from envs_node.messages.tasks import Task

_BATCH = 8
"""Templates a run: what is lost at most when it is stopped."""


class GradeVerb(Verb, frozen=True, kw_only=True):
    """Measure how difficult bundled templates are, and keep it; started again, it goes on."""

    templates: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names of templates, or how they begin; all unless given."""
    samples: int = 4
    """Sampled rollouts an instance, beside one greedy."""
    instances: int = 1
    """Of each template: those of the held-out numbers, which no train split has."""
    out: Path = GRADES
    """Where the grades are kept; `tasks ls` and the page of tasks read the bundled file."""
    again: bool = False
    """Measure anew what is graded already."""
    json: bool = False
    """Print the grades as JSON."""
    desktop: DesktopSettings = DesktopSettings()
    policy: PolicySettings = PolicySettings()
    checker: CheckerSettings = CheckerSettings()
    search: SearchSettings = SearchSettings()

    def run(self) -> int:
        """Grade."""
        if not (1 <= self.instances <= INSTANCES_MAX and self.samples >= 1):
            raise ConfigError(
                f"--samples is {self.samples} and --instances is {self.instances}; give at least"
                f" 1 of each, and {INSTANCES_MAX} instances at most"
            )
        search = msgspec.structs.replace(self.search, rollouts=self.samples, temperature=1.0)
        config = Config(
            desktop=self.desktop, policy=self.policy, search=search, checker=self.checker
        )
        check_config(config)
        chosen = _choose(self.templates)
        policy = Path(config.policy.path()).name
        grades = add_grades(self.out, {})  # that it cannot be written is told before hours of work
        attempts = (self.samples + 1) * self.instances
        wanted = [
            template
            for template in chosen
            if self.again or not _is_graded(grades.get(template.name), policy, attempts)
        ]
        done = len(chosen) - len(wanted)
        for batch in _batches(wanted):
            progress = self._roll_out(batch, config, f"grade {done + 1}-{done + len(batch)}")
            grades = add_grades(self.out, _graded(batch, policy, progress))
            done += len(batch)
            tell(f"{done} of {len(chosen)} templates graded in {self.out}")
        rows = {t.name: grades[t.name] for t in chosen if t.name in grades}
        show(rows, "\n".join(_line(name, grade) for name, grade in rows.items()), as_json=self.json)
        return 0 if len(rows) == len(chosen) else 1

    def _roll_out(self, batch: Sequence[Template], config: Config, title: str) -> Progress:
        tasks = tuple(task for template in batch for task in _tasks(template, self.instances))
        with tempfile.TemporaryDirectory(prefix="envs-node-grade-") as folder:
            run = RunFolder(Path(folder) / "run")
            with watching(title) as watch:
                hint = "run it again: what is graded stays graded"
                return run_here(run, config, request_tasks=tasks, watch=watch, hint=hint)


def _choose(names: tuple[str, ...]) -> list[Template]:
    """Templates by name or beginning.

    Raises:
        TasksError: one of the names begins no template's.
    """
    for name in names:
        if not any(template.name.startswith(name) for template in TEMPLATES):
            raise TasksError(f"no bundled template begins with {name}; docs/task-set.md lists them")
    return [t for t in TEMPLATES if not names or t.name.startswith(names)]


def _is_graded(grade: TemplateGrade | None, policy: str, attempts: int) -> bool:
    return grade is not None and grade.policy == policy and grade.attempts >= attempts


def _batches(templates: Sequence[Template]) -> Iterator[list[Template]]:
    left = iter(templates)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _tasks(template: Template, instances: int) -> Iterator[Task]:
    split = "held-out" if template.split == "train" else template.split
    for number in range(INSTANCES_MAX, INSTANCES_MAX + instances):
        yield bundled_task(template, split, number)


def _graded(batch: Sequence[Template], policy: str, progress: Progress) -> dict[str, TemplateGrade]:
    grades: dict[str, TemplateGrade] = {}
    for template in batch:
        own = [task for task in progress.tasks if task.template == template.name]
        rollouts = [rollout for task in own for rollout in task.rollouts]
        steps = len(instance_of(template, INSTANCES_MAX).oracle)
        grade = measured(policy, steps, rollouts)
        if grade is not None:
            grades[template.name] = grade
    return grades


def _line(name: str, grade: TemplateGrade) -> str:
    share = f"{grade.successes}/{grade.attempts}"
    return f"{name:<32} {grade.grade:<9} {share:>6} {grade.steps:>3} steps"
