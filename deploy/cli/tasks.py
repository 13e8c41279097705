"""`envs-node tasks`: write the bundled tasks, or look at any."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.grade import GradeVerb
from envs_node.deploy.cli.task_source import find_tasks
from envs_node.deploy.cli.tasks_admit import Admit
from envs_node.deploy.cli.tasks_fetch import Fetch
from envs_node.deploy.cli.tasks_import import CacheVerbs, Check, Import
from envs_node.deploy.cli.verb import (
    Verb,
    require_checker,
)
from envs_node.deploy.tasks.bundle import write_tasks
from envs_node.deploy.tasks.grades import read_grades


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A task in one line."""

    id: str
    template: str
    split: str
    apps: tuple[str, ...]
    grade: str
    """How difficult its template is for the built-in policy; empty where that was not measured."""
    instruction: str


class Ls(Verb, frozen=True, kw_only=True):
    """List tasks."""

    tasks: tyro.conf.Positional[str] = "train"
    """A task file, a folder of them, or the bundled sets `train`, `validation` or `held-out`."""
    instances: int = 1
    task_seed: int = 0
    json: bool = False

    def run(self) -> int:
        """Print one line a task."""
        grades = read_grades()
        rows = [
            Row(
                id=task.id,
                template=task.template,
                split=task.split,
                apps=task.apps,
                grade=grades[task.template].grade if task.template in grades else "",
                instruction=task.instruction,
            )
            for task in find_tasks(
                self.tasks, self.instances, self.task_seed, require_checker(), quarantined=True
            )
        ]
        text = "\n".join(
            f"{row.id:<36} {row.split:<10} {row.grade:<8} {row.instruction}" for row in rows
        )
        show(rows, text, as_json=self.json)
        return 0


class Make(Verb, frozen=True, kw_only=True):
    """Write bundled tasks as OSWorld JSON files with the files they need."""

    folder: tyro.conf.Positional[Path]
    """Where to write them."""
    split: tyro.conf.Positional[str] = "train"
    """`train`, `validation` or `held-out`."""
    instances: int = 2
    task_seed: int = 0
    json: bool = False
    """Print the files of the tasks as JSON."""

    def run(self) -> int:
        """Write."""
        tasks = find_tasks(self.split, self.instances, self.task_seed, require_checker())
        write_tasks(self.folder, tasks)
        if self.json:
            show([self.folder / f"{task.id}.json" for task in tasks], "", as_json=True)
        tell(f"{len(tasks)} tasks in {self.folder}")
        return 0


TasksVerbs = (
    Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Make, tyro.conf.subcommand("make")]
    | Annotated[GradeVerb, tyro.conf.subcommand("grade")]
    | Annotated[Import, tyro.conf.subcommand("import")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Admit, tyro.conf.subcommand("admit")]
    | Annotated[
        CacheVerbs,
        tyro.conf.subcommand("cache", description="Look at the files that were fetched."),
    ]
)
