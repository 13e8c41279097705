"""Tasks in xterm: a command typed into a shell."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, compare, launch, prints, upload
from envs_node.deploy.tasks.template import Instance, Template
from envs_node.messages.actions import Finish, Key, Type


def _solution(command: str) -> tuple[Type | Key | Finish, ...]:
    return (Type(text=command), Key(keys=("enter",)), Finish())


def _ask(chance: random.Random, command: str) -> str:
    return chance.choice(
        (
            f"Type the command '{command}' into the terminal and press enter",
            f"Run the command '{command}' in the terminal and press enter",
        )
    )


def _make_folder(chance: random.Random) -> Instance:
    (name,) = words.pick(chance, words.PLACES, 1)
    command = f"mkdir {name}"
    folder = f"{HOME}/{name}"
    return Instance(
        instruction=_ask(chance, command),
        config=(launch("xterm"),),
        evaluator=prints(["find", folder, "-printf", "%y %p\\n"], f"d {folder}\n"),
        oracle=_solution(command),
    )


def _write_file(chance: random.Random) -> Instance:
    (name,), (word,) = words.pick(chance, words.STEMS, 1), words.pick(chance, words.THINGS, 1)
    command = f"echo {word} > {name}.txt"
    return Instance(
        instruction=_ask(chance, command),
        config=(launch("xterm"),),
        evaluator=compare("compare_text_file", f"{HOME}/{name}.txt", f"{name}.txt"),
        oracle=_solution(command),
        gold={f"{name}.txt": f"{word}\n".encode()},
    )


def _copy_file(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.STEMS, 2)
    command = f"cp {old}.txt {new}.txt"
    text = f"{words.errand(chance)}\n".encode()
    return Instance(
        instruction=_ask(chance, command),
        config=(upload(f"{old}.txt"), launch("xterm")),
        evaluator=compare("compare_text_file", f"{HOME}/{new}.txt", f"{new}.txt"),
        oracle=_solution(command),
        files={f"{old}.txt": text},
        gold={f"{new}.txt": text},
    )


TEMPLATES = (
    Template(
        name="xterm-make-folder", app="xterm", category="os", split="train",
        make=_make_folder, is_in_demo=True,
    ),
    Template(
        name="xterm-write-file", app="xterm", category="os", split="train",
        make=_write_file, is_in_demo=True,
    ),
    Template(
        name="xterm-copy-file", app="xterm", category="os", split="held-out",
        make=_copy_file, is_in_demo=True,
    ),
)  # fmt: skip
