"""Tasks in gedit, a text editor with a Save button."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, compare, launch, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

_SAVE = (ClickOn("push button", "Save"), Finish())


def _instance(
    instruction: str, before: str, after: str, solution: tuple[OracleStep, ...]
) -> Instance:
    return Instance(
        instruction=instruction,
        config=(upload("list.txt"), launch("gedit", f"{HOME}/list.txt")),
        evaluator=compare("compare_text_file", f"{HOME}/list.txt", "list.txt"),
        oracle=solution + _SAVE,
        files={"list.txt": before.encode()},
        gold={"list.txt": after.encode()},
    )


def _text(chance: random.Random) -> str:
    return "".join(f"meet at the {place}\n" for place in words.pick(chance, words.PLACES, 2))


def _insert_first(chance: random.Random) -> Instance:
    before, line = _text(chance), words.errand(chance)
    instruction = chance.choice(
        (
            f"Just type '{line}' and click Save",
            f"Type '{line}' and click Save",
        )
    )
    return _instance(instruction, before, f"{line}{before}", (Type(text=line),))


def _append_line(chance: random.Random) -> Instance:
    before, line = _text(chance), words.errand(chance)
    instruction = chance.choice(
        (
            f"Press ctrl+end, type '{line}' and click Save",
            f"Add '{line}' at the end of the list and click Save",
        )
    )
    steps = (Key(keys=("ctrl", "end")), Type(text=line))
    # gedit keeps the last newline of a file to itself: a second one shows as an empty last line.
    return _instance(instruction, f"{before}\n", f"{before}{line}\n", steps)


def _replace_text(chance: random.Random) -> Instance:
    before, line = _text(chance), words.errand(chance)
    instruction = chance.choice(
        (
            f"Replace the whole text with '{line}' and click Save",
            f"Overwrite everything in the document with '{line}', then press the Save button",
        )
    )
    steps = (Key(keys=("ctrl", "a")), Type(text=line))
    return _instance(instruction, before, f"{line}\n", steps)


TEMPLATES = (
    Template(
        name="gedit-insert-first", app="gedit", category="code", split="train",
        make=_insert_first, is_in_demo=True,
    ),
    Template(
        name="gedit-append-line", app="gedit", category="code", split="train",
        make=_append_line, is_in_demo=True,
    ),
    Template(
        name="gedit-replace-text", app="gedit", category="code", split="held-out",
        make=_replace_text, is_in_demo=True,
    ),
)  # fmt: skip
