"""The bundled tasks: which there are, and how they are written to a folder."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path

from envs_node.deploy.tasks.template import Instance, Split, Template, task_json
from envs_node.deploy.tasks.templates import calc, gedit, impress, mousepad, thunar, writer, xterm
from envs_node.messages.base import TaskId
from envs_node.messages.tasks import Task, TaskFile

TEMPLATES: tuple[Template, ...] = (
    *mousepad.TEMPLATES,
    *gedit.TEMPLATES,
    *thunar.TEMPLATES,
    *xterm.TEMPLATES,
    *calc.TEMPLATES,
    *writer.TEMPLATES,
    *impress.TEMPLATES,
)

INSTANCES_MAX = 50
"""Of one template, split and seed. Numbers go by hundreds: 0-49 train, 50-99 held-out."""


def instance_of(template: Template, number: int) -> Instance:
    """The instance with a number, the same one every time."""
    return template.make(random.Random(f"{template.name}/{number}"))


def bundled_tasks(split: Split, instances: int, seed: int = 0) -> tuple[Task, ...]:
    """The bundled tasks of a split, `instances` a template.

    The held-out split has the held-out templates and, of the train templates, instances that no
    train split of any seed has.

    Raises:
        ValueError: `instances` is not between 1 and `INSTANCES_MAX`, or `seed` is negative.
    """
    if not 1 <= instances <= INSTANCES_MAX:
        raise ValueError(f"instances is {instances}; it must be between 1 and {INSTANCES_MAX}")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must not be negative")
    first = 100 * seed + (INSTANCES_MAX if split == "held-out" else 0)
    return tuple(
        bundled_task(template, split, number)
        for template in TEMPLATES
        if split == "held-out" or template.split == "train"
        for number in range(first, first + instances)
    )


def bundled_task(template: Template, split: Split, number: int) -> Task:
    """One task, complete."""
    instance = instance_of(template, number)
    task_id = f"{template.name}-{number:03d}"
    json = task_json(task_id, template, split, instance)
    files = (*_task_files("files", instance.files), *_task_files("gold", instance.gold))
    return Task(
        id=TaskId(task_id),
        instruction=instance.instruction,
        template=template.name,
        split=split,
        apps=(template.app,),
        json=json,
        sha256=_digest(json, files),
        files=files,
    )


def write_tasks(folder: Path, tasks: tuple[Task, ...]) -> None:
    """Write each task as `<id>.json`, and its files as `<id>/files/…` and `<id>/gold/…`."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        for file in task.files:
            path = folder / task.id / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        (folder / f"{task.id}.json").write_bytes(task.json)


def _task_files(place: str, contents: Mapping[str, bytes]) -> tuple[TaskFile, ...]:
    return tuple(
        TaskFile(name=f"{place}/{name}", sha256=hashlib.sha256(data).hexdigest(), data=data)
        for name, data in sorted(contents.items())
    )


def _digest(json: bytes, files: tuple[TaskFile, ...]) -> str:
    """As `messages/tasks.py` defines it."""
    digest = hashlib.sha256(json)
    for file in files:
        digest.update(f"{file.name}\0{file.sha256}\n".encode())
    return digest.hexdigest()
