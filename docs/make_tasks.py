"""Writes `docs/tasks.md` from the templates: `python docs/make_tasks.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from envs_node.deploy.tasks.bundle import INSTANCES_MAX, TEMPLATES, bundled_task, instance_of
from envs_node.deploy.tasks.template import Template

_HEAD = """# The bundled tasks

Small tasks on seven real applications, each a complete OSWorld task file, made from seeded
templates in `deploy/tasks/`. Made from the code by `.venv/bin/python docs/make_tasks.py`; a test
compares.

- `bundled_tasks(split, instances, seed)` makes them: the same arguments give the same bytes.
  Numbers go by hundreds, one a seed: 50-99 are held out. So every train template has
  held-out instances; a validation or held-out template is never trained on.
- `write_tasks(folder, tasks)` writes `<id>.json` with `<id>/files/` for the desktop and
  `<id>/gold/` for the checker alone. Such folders are searched like any other tasks.
- Every metric and getter is OSWorld's. Where a metric looks away (`compare_docx_files` sees no
  bold), a second one is added with `and`. Doing nothing scores 0, and so does a solution without
  its last step: an unsaved file, an unconfirmed dialog, a command without enter.
- Each instance has a solution that only tests see. `pytest -m live tests/deploy/tasks` plays them
  on real desktops and asks the real checker; without `-m`, one instance a template.
- The instructions name menus, keys and values, because the built-in policy can type only what an
  instruction says, and cannot find what it never proposes. It is not expected to solve all.

*Steps* counts the actions of the solution, with `finish`.

| template | application | split | steps | for example | judged by |
|---|---|---|---|---|---|
"""


def tasks_text() -> str:
    """The page, as the code would have it."""
    return _HEAD + "".join(_row(template) for template in TEMPLATES) + _gallery()


def _gallery() -> str:
    """A picture of each application at a task's start; `docs/make_screenshots.py` takes them."""
    apps = dict.fromkeys(template.app for template in TEMPLATES)
    pictures = "\n".join(f"### {app}\n\n![{app}](pictures/{app}.png)\n" for app in apps)
    return f"\n## The applications\n\n{pictures}"


def _row(template: Template) -> str:
    number = INSTANCES_MAX if template.split == "held-out" else 0
    instance = instance_of(template, number)
    task = bundled_task(template, template.split, number)
    func = msgspec.json.decode(task.json)["evaluator"]["func"]
    metrics = " and ".join(f"`{name}`" for name in ([func] if isinstance(func, str) else func))
    cells = (
        f"`{template.name}`",
        template.app,
        template.split,
        str(len(instance.oracle)),
        instance.instruction,
        metrics,
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    target = Path(__file__).with_name("tasks.md")
    target.write_text(tasks_text(), encoding="utf-8")
    sys.stdout.write(f"wrote {target.name}\n")
