"""Tasks in Mousepad, a plain text editor."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, compare, launch, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

_SAVE = (Key(keys=("ctrl", "s")), Finish())


def _instance(
    instruction: str, before: str, after: str, solution: tuple[OracleStep, ...]
) -> Instance:
    return Instance(
        instruction=instruction,
        config=(upload("notes.txt"), launch("mousepad", f"{HOME}/notes.txt")),
        evaluator=compare("compare_text_file", f"{HOME}/notes.txt", "notes.txt"),
        oracle=solution + _SAVE,
        files={"notes.txt": before.encode()},
        gold={"notes.txt": after.encode()},
    )


def _lines(chance: random.Random, count: int) -> list[str]:
    return [f"{thing} shelf" for thing in words.pick(chance, words.THINGS, count)]


def _append_line(chance: random.Random) -> Instance:
    before = "".join(f"{line}\n" for line in _lines(chance, 2))
    line = words.errand(chance)
    instruction = chance.choice(
        (
            f"Press ctrl+end, type '{line}' and save the notes",
            f"Append '{line}' to the open document, then save it",
        )
    )
    steps = (Key(keys=("ctrl", "end")), Type(text=line))
    return _instance(instruction, before, f"{before}{line}", steps)


def _replace_text(chance: random.Random) -> Instance:
    before = "".join(f"{line}\n" for line in _lines(chance, 2))
    line = words.errand(chance)
    instruction = chance.choice(
        (
            f"Select all the text, type '{line}' over it and save the file",
            f"Press ctrl+a, type '{line}' over it and save the file",
        )
    )
    steps = (Key(keys=("ctrl", "a")), Type(text=line))
    return _instance(instruction, before, line, steps)


def _convert_case(chance: random.Random) -> Instance:
    lines = _lines(chance, 2)
    item, changed = chance.choice((("To Uppercase", str.upper), ("To Title Case", str.title)))
    before = "".join(f"{line}\n" for line in lines)
    instruction = chance.choice(
        (
            f"Select everything, use Edit > Convert > {item} and save the file",
            f"Select all the text, then choose Edit > Convert > {item} and save",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")),
        ClickOn("menu", "Edit"),
        ClickOn("menu", "Convert"),
        ClickOn("menu item", item),
    )
    return _instance(instruction, before, changed(before), steps)


def _edit_line(chance: random.Random, item: str) -> Instance:
    first, *rest = _lines(chance, 3)
    kept = [first, first, *rest] if item.startswith("Duplicate") else rest
    before = "".join(f"{line}\n" for line in (first, *rest))
    instruction = chance.choice(
        (
            f"Use Edit > {item} and save the file",
            f"Choose Edit > {item}, then save the document",
        )
    )
    steps = (ClickOn("menu", "Edit"), ClickOn("menu item", item))
    return _instance(instruction, before, "".join(f"{line}\n" for line in kept), steps)


def _duplicate_line(chance: random.Random) -> Instance:
    return _edit_line(chance, "Duplicate Line / Selection")


def _delete_line(chance: random.Random) -> Instance:
    return _edit_line(chance, "Delete Line")


TEMPLATES = (
    Template(
        name="mousepad-append-line", app="mousepad", category="os", split="train",
        make=_append_line, is_in_demo=True,
    ),
    Template(
        name="mousepad-replace-text", app="mousepad", category="os", split="train",
        make=_replace_text, is_in_demo=True,
    ),
    Template(
        name="mousepad-convert-case", app="mousepad", category="os", split="train",
        make=_convert_case, is_in_demo=True,
    ),
    Template(
        name="mousepad-duplicate-line", app="mousepad", category="os", split="train",
        make=_duplicate_line, is_in_demo=True,
    ),
    Template(
        name="mousepad-delete-line", app="mousepad", category="os", split="held-out",
        make=_delete_line, is_in_demo=True,
    ),
)  # fmt: skip
