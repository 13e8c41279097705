"""The bundled tasks: which there are, and how they are written to a folder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from envs_node.deploy.tasks.template import Instance, OracleStep, Split, Template, task_json
from envs_node.deploy.tasks.templates import (
    calc,
    calc_figures,
    calc_sheets,
    chrome,
    code,
    files,
    gedit,
    gimp,
    impress,
    impress_slides,
    mousepad,
    multi,
    terminal,
    thunar,
    thunderbird,
    vlc,
    writer,
    writer_layout,
    writer_text,
    xterm,
)
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import Vocabulary, read_task

TEMPLATES: tuple[Template, ...] = (
    *mousepad.TEMPLATES,
    *gedit.TEMPLATES,
    *thunar.TEMPLATES,
    *xterm.TEMPLATES,
    *calc.TEMPLATES,
    *calc_figures.TEMPLATES,
    *calc_sheets.TEMPLATES,
    *writer.TEMPLATES,
    *writer_layout.TEMPLATES,
    *writer_text.TEMPLATES,
    *impress.TEMPLATES,
    *impress_slides.TEMPLATES,
    *files.TEMPLATES,
    *terminal.TEMPLATES,
    *code.TEMPLATES,
    *multi.TEMPLATES,
    *gimp.TEMPLATES,
    *vlc.TEMPLATES,
    *thunderbird.TEMPLATES,
    *chrome.TEMPLATES,
)

VOCABULARY = Vocabulary(
    metrics=frozenset({
        "check_file_exists_and_structure_sim", "check_image_mirror", "check_image_size",
        "check_json_settings", "check_list", "check_one_instance_when_started_from_file",
        "check_palette_and_structure_sim", "check_python_file_by_test_suite", "check_qt_max_volume",
        "check_qt_minimal_view", "check_slide_orientation_Portrait", "check_strikethrough",
        "check_structure_sim", "check_structure_sim_resized", "check_thunderbird_filter",
        "check_thunderbird_prefs", "compare_config", "compare_csv", "compare_docx_files",
        "compare_docx_lines", "compare_docx_tables", "compare_image_list", "compare_init_lines",
        "compare_line_spacing", "compare_pptx_files", "compare_table", "compare_text_file",
        "contains_page_break", "evaluate_conversion", "evaluate_strike_through_last_paragraph",
        "exact_match", "has_page_numbers_in_footers", "is_first_line_centered", "is_vlc_playing",
        "is_vlc_recordings_folder",
    }),
    getters=frozenset({
        "cloud_file", "enable_do_not_track", "enable_enhanced_safety_browsing", "profile_name",
        "rule", "vlc_config", "vlc_playing_info", "vm_command_line", "vm_file",
    }),
    setup_types=frozenset({"execute", "launch", "upload_file"}),
)  # fmt: skip
"""All that the bundle uses of OSWorld."""

INSTANCES_MAX = 50
"""Of one template, split and seed. Numbers go by hundreds: 50-99 are held out."""


def instance_of(template: Template, number: int) -> Instance:
    """The instance with a number, the same one every time."""
    return template.make(random.Random(f"{template.name}/{number}"))


def bundled_tasks(
    split: Split, instances: int, seed: int = 0, templates: Sequence[Template] = TEMPLATES
) -> tuple[Task, ...]:
    """The bundled tasks of a split, `instances` a template.

    Each template belongs to one split. The held-out split has, beside its own templates, instances
    of the train templates that no train split of any seed has.

    Args:
        templates: those to choose from.

    Raises:
        ValueError: `instances` is not between 1 and `INSTANCES_MAX`, or `seed` is negative.
    """
    if not 1 <= instances <= INSTANCES_MAX:
        raise ValueError(f"instances is {instances}; it must be between 1 and {INSTANCES_MAX}")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must not be negative")
    first = 100 * seed + (INSTANCES_MAX if split == "held-out" else 0)
    splits = ("train", "held-out") if split == "held-out" else (split,)
    return tuple(
        bundled_task(template, split, number)
        for template in templates
        if template.split in splits
        for number in range(first, first + instances)
    )


def bundled_task(template: Template, split: Split, number: int) -> Task:
    """One task, complete."""
    instance = instance_of(template, number)
    task_id = f"{template.name}-{number:03d}"
    inputs = {f"files/{name}": data for name, data in instance.files.items()}
    inputs |= {f"gold/{name}": data for name, data in instance.gold.items()}
    json = task_json(task_id, template, split, instance)
    return read_task(json, inputs, VOCABULARY, file=f"{task_id}.json")


def bundled_solution(task: Task) -> tuple[OracleStep, ...] | None:
    """The steps that solve a task of the bundle, wherever its file lies; None for any other."""
    template = next((one for one in TEMPLATES if one.name == task.template), None)
    number = task.id.removeprefix(f"{task.template}-")
    if template is None or not number.isdecimal():
        return None
    split = next(split for split in get_args(Split) if split == task.split)
    is_of_bundle = bundled_task(template, split, int(number)).sha256 == task.sha256
    return instance_of(template, int(number)).oracle if is_of_bundle else None


def write_tasks(folder: Path, tasks: tuple[Task, ...]) -> None:
    """Write each task as `<id>.json`, and its files as `<id>/files/…` and `<id>/gold/…`."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        for file in task.files:
            path = folder / task.id / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        (folder / f"{task.id}.json").write_bytes(task.json)
