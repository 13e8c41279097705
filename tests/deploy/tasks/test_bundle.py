"""The bundled task set: enough of it, learnable, split cleanly, and the same every time."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.deploy.tasks.bundle import (
    INSTANCES_MAX,
    TEMPLATES,
    VOCABULARY,
    bundled_tasks,
    instance_of,
    write_tasks,
)
from envs_node.deploy.tasks.load import load_tasks
from envs_node.deploy.tasks.template import ClickOn, Template
from envs_node.messages.actions import Finish, Key, Type
from envs_node.policy.models.pointer.vocabulary import CHORDS

ROOT = Path(__file__).parents[3]
any_template = st.sampled_from(TEMPLATES)
any_demo_template = st.sampled_from([t for t in TEMPLATES if t.is_in_demo])
any_number = st.integers(0, 100_000)
few = settings(max_examples=30, deadline=None)  # an office document takes 20 ms to make


def test_there_are_enough_templates_and_applications() -> None:
    trained = [template for template in TEMPLATES if template.split == "train"]

    assert len(trained) >= 12
    assert len(TEMPLATES) - len(trained) >= 3
    assert len({template.app for template in trained}) >= 6


def test_template_names_are_unique_and_begin_with_their_file() -> None:
    names = [template.name for template in TEMPLATES]

    assert len(names) == len(set(names))


@few
@given(any_template, any_number)
def test_a_number_makes_the_same_instance_every_time(template: Template, number: int) -> None:
    assert instance_of(template, number) == instance_of(template, number)


def test_the_same_split_has_the_same_bytes_every_time() -> None:
    assert bundled_tasks("train", 2, seed=3) == bundled_tasks("train", 2, seed=3)


def test_no_held_out_task_is_a_train_task() -> None:
    trained = [t for seed in range(2) for t in bundled_tasks("train", 1, seed)]
    held_out = [t for seed in range(2) for t in bundled_tasks("held-out", 1, seed)]

    assert not {t.id for t in trained} & {t.id for t in held_out}
    assert {t.split for t in trained} == {"train"}
    assert {t.split for t in held_out} == {"held-out"}


def test_train_templates_have_held_out_instances_and_held_out_templates_are_not_trained_on() -> (
    None
):
    trained = {task.template for task in bundled_tasks("train", 1)}
    held_out = {task.template for task in bundled_tasks("held-out", 1)}

    assert trained == {template.name for template in TEMPLATES if template.split == "train"}
    validation = {task.template for task in bundled_tasks("validation", 1)}
    assert held_out | validation == {template.name for template in TEMPLATES}
    assert not validation & (trained | held_out)


@few
@given(any_template, any_number)
def test_a_solution_is_short_and_ends_with_finish(template: Template, number: int) -> None:
    oracle = instance_of(template, number).oracle

    assert 2 <= len(oracle) <= 40
    assert isinstance(oracle[-1], Finish)


@few
@given(any_demo_template, any_number)
def test_every_step_of_a_solution_in_the_demo_is_one_the_policy_can_propose(
    template: Template, number: int
) -> None:
    instance = instance_of(template, number)

    for step in instance.oracle:
        match step:
            case Type(text=text):
                assert text in instance.instruction
            case Key(keys=keys):
                assert "+".join(keys) in CHORDS
            case ClickOn(role=role, name=name):
                assert role
                assert name
            case Finish():
                pass
            case _:
                raise AssertionError(f"the policy never proposes {step}")


@pytest.mark.parametrize(("instances", "seed"), [(0, 0), (INSTANCES_MAX + 1, 0), (1, -1)])
def test_impossible_numbers_are_refused(instances: int, seed: int) -> None:
    with pytest.raises(ValueError, match="must"):
        bundled_tasks("train", instances, seed)


def test_a_folder_holds_each_task_and_its_files(tmp_path: Path) -> None:
    tasks = bundled_tasks("held-out", 1)

    write_tasks(tmp_path, tasks)

    for task in tasks:
        assert (tmp_path / f"{task.id}.json").read_bytes() == task.json
    assert load_tasks(tmp_path, VOCABULARY) == tuple(sorted(tasks, key=lambda task: task.id))


def test_the_page_of_tasks_is_that_of_the_templates() -> None:
    spec = importlib.util.spec_from_file_location("make_task_set", ROOT / "docs/make_task_set.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)

    written = (ROOT / "docs" / "task-set.md").read_text(encoding="utf-8")
    assert written == maker.page_text(), "run: python docs/make_task_set.py"
