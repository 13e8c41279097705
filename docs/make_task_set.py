"""Writes `docs/task-set.md` from the templates: `python docs/make_task_set.py`.

With `--pictures [BEGINNING ...]` it first takes `docs/pictures/tasks/<template>.webp` on a real
desktop, of all templates or of those whose names begin so. That needs root and the applications.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import get_args

import msgspec
from PIL import Image

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.tasks.bundle import INSTANCES_MAX, TEMPLATES, bundled_task, instance_of
from envs_node.deploy.tasks.grades import read_grades
from envs_node.deploy.tasks.template import Category, Template

PAGE = Path(__file__).with_name("task-set.md")
PICTURES = Path(__file__).with_name("pictures") / "tasks"
SIZE = (480, 270)
BYTES_MAX = 12 * 1024
QUALITIES = (80, 60, 40, 20, 5)
TITLES = {
    "writer": "LibreOffice Writer", "calc": "LibreOffice Calc", "impress": "LibreOffice Impress",
    "chrome": "Chrome", "thunderbird": "Thunderbird", "vlc": "VLC", "gimp": "GIMP",
    "os": "Operating system, files and terminal", "code": "Code in a text editor",
    "multi": "Several applications",
}  # fmt: skip

_HEAD = """# The templates of the bundled task set

{count} templates. Made from the code by `.venv/bin/python docs/make_task_set.py`; a test compares.
What they have in common is told in [The bundled tasks](tasks.md).

*Steps* counts the actions of the solution, with `finish`. *Difficulty* is how often the built-in
policy succeeds, one greedy rollout and two sampled ones, as `envs-node tasks grade` measured it:
easy from half of them on, medium from a quarter, hard below, unsolved where none succeeds.
The pictures show where a task starts.

| category | train | validation | held-out | sum |
|---|---|---|---|---|
"""


def page_text() -> str:
    """The page, as the code would have it."""
    parts = [_HEAD.format(count=len(TEMPLATES)), *_counts()]
    for category in get_args(Category):
        templates = [template for template in TEMPLATES if template.category == category]
        if templates:
            parts.append(f"\n## {TITLES[category]}\n\n")
            parts += ["| template | for example | start |\n", "|---|---|---|\n"]
            parts += [_row(template) for template in templates]
    return "".join(parts)


def _counts() -> list[str]:
    lines = []
    for category in get_args(Category):
        splits = [each.split for each in TEMPLATES if each.category == category]
        if splits:
            numbers = [splits.count(split) for split in ("train", "validation", "held-out")]
            cells = (TITLES[category], *numbers, len(splits))
            lines.append(f"| {' | '.join(str(cell) for cell in cells)} |\n")
    return lines


def _number(template: Template) -> int:
    return INSTANCES_MAX if template.split == "held-out" else 0


def _row(template: Template) -> str:
    instance = instance_of(template, _number(template))
    task = bundled_task(template, template.split, _number(template))
    func = msgspec.json.decode(task.json)["evaluator"]["func"]
    metrics = " and ".join(f"`{name}`" for name in ([func] if isinstance(func, str) else func))
    facts = (
        f"**`{template.name}`**",
        ", ".join(template.apps),
        f"{template.split}, {len(instance.oracle)} steps",
        _difficulty(template),
        f"judged by {metrics}",
    )
    has_picture = (PICTURES / f"{template.name}.webp").exists()
    picture = f"![start](pictures/tasks/{template.name}.webp)" if has_picture else ""
    instruction = instance.instruction.replace("|", "\\|").replace("\n", " ")
    return f"| {'<br>'.join(facts)} | {instruction} | {picture} |\n"


def _difficulty(template: Template) -> str:
    grade = read_grades().get(template.name)
    if grade is None:
        return "not graded"
    return f"{grade.grade} ({grade.successes} of {grade.attempts})"


def take_pictures(beginnings: tuple[str, ...]) -> None:
    """Reset a desktop to one task of each template and keep what it shows, small."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            for template in TEMPLATES:
                if not beginnings or template.name.startswith(beginnings):
                    seen = sandbox.reset(bundled_task(template, template.split, _number(template)))
                    png = sandbox.frame_png(seen.signature.frame)
                    assert png is not None, "the frame was seen a moment ago"
                    (PICTURES / f"{template.name}.webp").write_bytes(_small(png))
        finally:
            sandbox.close()


def _small(png: bytes) -> bytes:
    """The same picture, scaled down, in the best quality that fits the limit."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").resize(SIZE, Image.Resampling.LANCZOS)
    for quality in QUALITIES:
        sink = io.BytesIO()
        picture.save(sink, "WEBP", quality=quality, method=6)
        if sink.tell() <= BYTES_MAX:
            break
    return sink.getvalue()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pictures"]:
        take_pictures(tuple(sys.argv[2:]))
    PAGE.write_text(page_text(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
