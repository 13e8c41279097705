"""The generated screens share no task and no label with the bundled tasks."""

from __future__ import annotations

import random
import re
from functools import cache

from envs_node.deploy.tasks import words as bundled_words
from envs_node.deploy.tasks.bundle import TEMPLATES, instance_of
from envs_node.deploy.tasks.template import ClickOn
from envs_node.messages.actions import Click, Type
from envs_node.policy.models.pointer import words
from envs_node.policy.models.pointer.lessons import play

LESSONS = 1500
INSTANCES = 20


def pattern(instruction: str, values: set[str]) -> str:
    """An instruction with quoted strings, numbers and what is typed or clicked left out."""
    blank = instruction
    for value in sorted((value for value in values if value), key=len, reverse=True):
        blank = blank.replace(value.removesuffix("..."), "_")
    blank = re.sub(r"'[^']*'|\"[^\"]*\"|\b[A-Z]?\d+(?:\.\d+)?\b", "_", blank)
    return re.sub(r"\W+", " ", blank).strip().lower()


@cache
def bundled() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Instruction patterns, clicked labels and typed texts of the bundled tasks."""
    patterns, labels, texts = set(), set(), set()
    for template in TEMPLATES:
        for number in range(INSTANCES):
            instance = instance_of(template, number)
            clicked = {step.name for step in instance.oracle if isinstance(step, ClickOn)}
            typed = {step.text for step in instance.oracle if isinstance(step, Type)}
            patterns.add(pattern(instance.instruction, clicked | typed))
            labels |= clicked
            texts |= typed
    return frozenset(patterns), frozenset(labels), frozenset(texts)


@cache
def generated() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The same of many lessons; the labels are all that any screen shows."""
    patterns, labels, texts = set(), set(), set()
    for seed in range(LESSONS):
        steps = play(seed)
        values = set()
        for state, action in steps:
            labels |= {e.name for e in state.observation.elements if e.role != "table cell"}
            if isinstance(action, Click) and action.target is not None:
                values.add(action.target.name)
            if isinstance(action, Type):
                values.add(action.text)
                texts.add(action.text)
        patterns.add(pattern(steps[0][0].instruction, values))
    return frozenset(patterns), frozenset(labels), frozenset(texts)


def test_no_instruction_is_worded_like_a_bundled_one() -> None:
    assert not generated()[0] & bundled()[0]


COMMON = frozenset({"close", "right", "sheet", "text"})
"""Single words that any program has in its menus and dialogs: they give no task away."""


def test_no_bundled_label_is_on_a_generated_screen() -> None:
    """Names of cells apart: any sheet has an A1."""
    cell = re.compile(r"[A-Z]\d+")
    real = {label.lower() for label in bundled()[1] if not cell.fullmatch(label)}

    assert not real & {label.lower() for label in generated()[1]} - COMMON


def test_no_text_is_typed_in_both() -> None:
    number = re.compile(r"[\d.]+")
    texts = {text for text in bundled()[2] if not number.fullmatch(text)}

    assert not texts & generated()[2]


def test_the_word_pools_are_apart() -> None:
    pools = [
        value
        for value in vars(bundled_words).values()
        if isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    ]
    theirs = {part.lower() for pool in pools for entry in pool for part in entry.split()}
    ours = {word.lower() for word in (*words.LABELS, *words.VALUES)}

    assert pools
    assert not ours & theirs
    assert {words.make_label(random.Random(i)) for i in range(50)}
