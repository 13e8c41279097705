"""Tasks in Thunar of several steps: move, copy, rename and delete among folders."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.evaluators import lists
from envs_node.deploy.tasks.osworld import HOME, compare, launch, upload_tree
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Split, Template
from envs_node.messages.actions import Finish, Key, Type

_FOLDER = f"{HOME}/work"
_TEXT = b"Nothing to see here.\n"
_CUT, _COPY, _PASTE = (Key(keys=("ctrl", letter)) for letter in "xcv")
_ENTER = Key(keys=("enter",))
_SELECT = Key(keys=("ctrl", "s"))
"""Opens Thunar's "Select by Pattern"."""


def _instance(
    instruction: str, before: Iterable[str], after: Iterable[str], steps: Iterable[OracleStep]
) -> Instance:
    """The folder holds files at first, and must hold `after` and nothing else at last."""
    return Instance(
        instruction=instruction,
        config=(*upload_tree(before, _FOLDER), launch("thunar", _FOLDER)),
        evaluator=lists(_FOLDER, after),
        oracle=(*steps, Finish()),
        files={path.rpartition("/")[2]: _TEXT for path in before},
    )


def _cell(name: str, count: int = 1) -> ClickOn:
    return ClickOn("table cell", name, count)


def _delete_file(chance: random.Random) -> Instance:
    names = [f"{stem}.txt" for stem in words.pick(chance, words.STEMS, 3)]
    gone = chance.choice(names)
    instruction = chance.choice(
        (
            f"Delete the file {gone} from this folder for good",
            f"Click {gone}, press delete and confirm it with the Delete button",
        )
    )
    steps = (_cell(gone), Key(keys=("delete",)), ClickOn("push button", "Delete"))
    return _instance(instruction, names, (name for name in names if name != gone), steps)


def _transfer(chance: random.Random, taking: Key, wordings: tuple[str, str]) -> Instance:
    """A file into a folder beside it, which holds another already."""
    first, second, inside = (f"{stem}.txt" for stem in words.pick(chance, words.STEMS, 3))
    (folder,) = words.pick(chance, words.PLACES, 1)
    before = (first, second, f"{folder}/{inside}")
    steps = (_cell(first), taking, _cell(folder, 2), _PASTE)
    after = {*before, f"{folder}/", f"{folder}/{first}"} - ({first} if taking == _CUT else set())
    instruction = chance.choice(wordings).format(file=first, folder=folder)
    return _instance(instruction, before, after, steps)


def _move_file(chance: random.Random) -> Instance:
    wordings = (
        "Move {file} into the folder {folder}",
        "Cut {file} with ctrl+x, open {folder} by a double click and paste it there",
    )
    return _transfer(chance, _CUT, wordings)


def _copy_into_folder(chance: random.Random) -> Instance:
    wordings = (
        "Put a copy of {file} into the folder {folder}, and leave the original where it is",
        "Copy {file} with ctrl+c, open {folder} by a double click and paste it there",
    )
    return _transfer(chance, _COPY, wordings)


def _nest_folders(chance: random.Random) -> Instance:
    (file,) = words.pick(chance, words.STEMS, 1)
    outer, inner = words.pick(chance, words.PLACES, 2)
    instruction = chance.choice(
        (
            f"Make a folder named {outer} here, and inside it another named {inner}",
            f"Create the folder '{outer}', open it, and create '{inner}' inside it",
        )
    )
    create = Key(keys=("ctrl", "shift", "n"))
    button = ClickOn("push button", "Create")
    steps = (
        create, Type(text=outer), button, _cell(outer, 2), create, Type(text=inner), button,
    )  # fmt: skip
    after = (f"{file}.txt", f"{outer}/", f"{outer}/{inner}/")
    return _instance(instruction, (f"{file}.txt",), after, steps)


def _kinds(chance: random.Random) -> tuple[list[str], list[str]]:
    """Names of two kinds: those that a pattern chooses, and those to leave alone."""
    stems = words.pick(chance, words.STEMS, 5)
    chosen, other = chance.sample((".txt", ".csv", ".log", ".bak"), 2)
    return [f"{stem}{chosen}" for stem in stems[:3]], [f"{stem}{other}" for stem in stems[3:]]


def _move_by_kind(chance: random.Random) -> Instance:
    chosen, other = _kinds(chance)
    inside, folder = f"{chance.choice(words.THINGS)}.md", chance.choice(words.PLACES)
    pattern = f"*.{chosen[0].rpartition('.')[2]}"
    instruction = chance.choice(
        (
            f"Move all files that match {pattern} into the folder {folder}, and no others",
            f"Sort this folder: whatever fits '{pattern}' belongs into {folder}",
        )
    )
    before = (*chosen, *other, f"{folder}/{inside}")
    after = (*other, f"{folder}/", f"{folder}/{inside}", *(f"{folder}/{name}" for name in chosen))
    steps = (_SELECT, Type(text=pattern), _ENTER, _CUT, _cell(folder, 2), _PASTE)
    return _instance(instruction, before, after, steps)


def _delete_by_kind(chance: random.Random) -> Instance:
    chosen, other = _kinds(chance)
    pattern = f"*.{chosen[0].rpartition('.')[2]}"
    instruction = chance.choice(
        (
            f"Delete every file here that matches {pattern}, and keep the rest",
            f"Use Edit > Select by Pattern... with '{pattern}', then delete the selection",
        )
    )
    steps = (
        ClickOn("menu", "Edit"),
        ClickOn("menu item", "Select by Pattern..."),
        Type(text=pattern),
        ClickOn("push button", "Select"),
        Key(keys=("delete",)),
        ClickOn("push button", "Delete"),
    )
    return _instance(instruction, (*chosen, *other), other, steps)


def _rename_inside(chance: random.Random) -> Instance:
    old, other, new = words.pick(chance, words.STEMS, 3)
    (folder,) = words.pick(chance, words.PLACES, 1)
    instruction = chance.choice(
        (
            f"In the folder {folder}, give {old}.txt the name {new}.txt",
            f"Open {folder} and rename {old}.txt, so that it is called {new}.txt",
        )
    )
    # The dialog selects the name without its ending.
    steps = (_cell(folder, 2), _cell(f"{old}.txt"), Key(keys=("f2",)), Type(text=new), _ENTER)
    before = (f"{folder}/{old}.txt", f"{folder}/{other}.txt")
    return _instance(instruction, before, (f"{folder}/", f"{folder}/{new}.txt", before[1]), steps)


def _swap_folders(chance: random.Random) -> Instance:
    """A file up out of its folder, and another down into it."""
    up, down = (f"{stem}.txt" for stem in words.pick(chance, words.STEMS, 2))
    (folder,) = words.pick(chance, words.PLACES, 1)
    instruction = chance.choice(
        (
            f"Let {up}, which lies in {folder}, and {down}, which lies here, change places",
            f"Move {down} into {folder}, and bring {up} from there up into this folder",
        )
    )
    steps = (
        _cell(down), _CUT, _cell(folder, 2), _PASTE,
        _cell(up), _CUT, Key(keys=("alt", "up")), _PASTE,
    )  # fmt: skip
    return _instance(
        instruction, (down, f"{folder}/{up}"), (up, f"{folder}/", f"{folder}/{down}"), steps
    )


def _bookmark_folder(chance: random.Random) -> Instance:
    first, second = words.pick(chance, words.PLACES, 2)
    file = f"{chance.choice(words.STEMS)}.txt"
    instruction = chance.choice(
        (
            f"Add the folder {first} to the bookmarks of the file manager",
            f"Click {first} and bookmark it with ctrl+d",
        )
    )
    steps = (_cell(first), Key(keys=("ctrl", "d")))
    made = _instance(instruction, (f"{first}/{file}", f"{second}/{file}"), (), steps)
    return Instance(
        instruction=made.instruction,
        config=made.config,
        evaluator=compare("compare_text_file", f"{HOME}/.config/gtk-3.0/bookmarks", "bookmarks"),
        oracle=made.oracle,
        files=made.files,
        gold={"bookmarks": f"file://{_FOLDER}/{first}\n".encode()},
    )


def _template(name: str, split: Split, make: Callable[[random.Random], Instance]) -> Template:
    return Template(name=f"files-{name}", app="thunar", category="os", split=split, make=make)


TEMPLATES = (
    _template("delete-file", "train", _delete_file),
    _template("move-file", "train", _move_file),
    _template("copy-into-folder", "validation", _copy_into_folder),
    _template("nest-folders", "train", _nest_folders),
    _template("move-by-kind", "train", _move_by_kind),
    _template("delete-by-kind", "held-out", _delete_by_kind),
    _template("rename-inside", "train", _rename_inside),
    _template("swap-folders", "held-out", _swap_folders),
    _template("bookmark-folder", "validation", _bookmark_folder),
)
