"""Generated tasks on icons: opened, renamed, thrown away, and their context menus."""

from __future__ import annotations

import random

from envs_node.policy.models.pointer.phrases import Lesson, make_labels, make_window, quote, say
from envs_node.policy.models.pointer.screens import Move
from envs_node.policy.models.pointer.words import make_name


def open_icon(chance: random.Random) -> Lesson:
    """A double click."""
    screen = make_window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 9))]
    name = chance.choice(screen.icons)
    wordings = ("Double-click on {n}", "Go into {n} by a double click", "Double click {n}",
                "Launch {n} with two quick clicks")  # fmt: skip
    said = say(chance, wordings, n=quote(chance, name))
    return screen, said, [Move("double_click", name, "icon")]


def use_context_menu(chance: random.Random) -> Lesson:
    """A right click and an item."""
    screen = make_window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 7))]
    name = chance.choice(screen.icons)
    screen.contexts = make_labels(chance, chance.randint(3, 8))
    item = chance.choice(screen.contexts)
    wordings = ("From the context menu of {n} take {i}", "Right-click {n} and pick {i}",
                "{i} is wanted from the right-click menu of {n}")  # fmt: skip
    moves = [Move("right_click", name, "icon"), Move("click", item, "menu item")]
    return screen, say(chance, wordings, n=name, i=item), moves


def rename_icon(chance: random.Random) -> Lesson:
    """A new name by F2, or away with it."""
    screen = make_window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 7))]
    old, new = chance.choice(screen.icons), make_name(chance)
    moves = [Move("click", old, "icon"), Move("key", "f2"), Move("type", new), Move("key", "enter")]
    wordings = ("Give {o} the new name {n}", "{o} shall be called {n}",
                "Change the name {o} into {n} (f2)")  # fmt: skip
    if chance.random() < 0.25:
        moves = [Move("click", old, "icon"), Move("key", "delete")]
        wordings = ("Throw {o} away with the delete key", "Erase {o} by delete",
                    "Get rid of {o}: delete")  # fmt: skip
    said = say(chance, wordings, o=quote(chance, old), n=quote(chance, new))
    return screen, said, moves
