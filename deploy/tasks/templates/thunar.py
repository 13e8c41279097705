"""Tasks in Thunar, a file manager."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, launch, prints, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

_FOLDER = f"{HOME}/work"


def _instance(
    instruction: str, file: str, after: tuple[str, ...], solution: tuple[OracleStep, ...]
) -> Instance:
    """The folder holds one file at first, and must hold `after` and nothing else at last.

    A folder ends in a slash. The order is that of `ls`, which is the same in every locale here.
    """
    listing = "".join(f"{name}\n" for name in sorted(after))
    return Instance(
        instruction=instruction,
        config=(upload(file, folder=_FOLDER), launch("thunar", _FOLDER)),
        evaluator=prints(["ls", "-1Ap", _FOLDER], listing),
        oracle=(*solution, Finish()),
        files={file: b"Nothing to see here.\n"},
    )


def _create_folder(chance: random.Random) -> Instance:
    (file,), (name,) = words.pick(chance, words.STEMS, 1), words.pick(chance, words.PLACES, 1)
    instruction = chance.choice(
        (
            f"Use File > Create Folder... with the name '{name}' and click Create",
            f"Choose File > Create Folder..., type the name '{name}' and click Create",
        )
    )
    steps = (
        ClickOn("menu", "File"),
        ClickOn("menu item", "Create Folder..."),
        Type(text=name),
        ClickOn("push button", "Create"),
    )
    return _instance(instruction, f"{file}.txt", (f"{file}.txt", f"{name}/"), steps)


def _create_file(chance: random.Random) -> Instance:
    file, name = words.pick(chance, words.STEMS, 2)
    instruction = chance.choice(
        (
            f"Use File > Create Document > Empty File with the name '{name}' and click Create",
            f"Choose File > Create Document > Empty File, type '{name}' and click Create",
        )
    )
    steps = (
        ClickOn("menu", "File"),
        ClickOn("menu", "Create Document"),
        ClickOn("menu item", "Empty File"),
        Type(text=name),
        ClickOn("push button", "Create"),
    )
    return _instance(instruction, f"{file}.txt", (f"{file}.txt", name), steps)


def _rename_file(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.STEMS, 2)
    instruction = chance.choice(
        (
            f"Press ctrl+a to select the file, press f2, type '{new}' and click Rename",
            f"Press ctrl+a, press f2, write the name '{new}' and press Rename",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")),
        Key(keys=("f2",)),
        Type(text=new),
        ClickOn("push button", "Rename"),
    )
    return _instance(instruction, f"{old}.txt", (f"{new}.txt",), steps)


def _copy_file(chance: random.Random) -> Instance:
    (file,) = words.pick(chance, words.STEMS, 1)
    instruction = chance.choice(
        (
            "Press ctrl+a, ctrl+c and then ctrl+v",
            "Select all with ctrl+a, press ctrl+c and then ctrl+v",
        )
    )
    steps = tuple(Key(keys=("ctrl", letter)) for letter in "acv")
    after = (f"{file}.txt", f"{file} (copy 1).txt")
    return _instance(instruction, f"{file}.txt", after, steps)


TEMPLATES = (
    Template(
        name="thunar-create-folder", app="thunar", category="os", split="train",
        make=_create_folder, is_in_demo=True,
    ),
    Template(
        name="thunar-create-file", app="thunar", category="os", split="train",
        make=_create_file, is_in_demo=True,
    ),
    Template(
        name="thunar-rename-file", app="thunar", category="os", split="train",
        make=_rename_file, is_in_demo=True,
    ),
    Template(
        name="thunar-copy-file", app="thunar", category="os", split="held-out",
        make=_copy_file, is_in_demo=True,
    ),
)  # fmt: skip
