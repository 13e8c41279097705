"""All kinds of generated tasks, and what a window shows besides what a task needs.

No wording and no label here occurs in the bundled tasks (a test compares them).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from envs_node.policy.models.pointer import controls, editing, icons, keyboard
from envs_node.policy.models.pointer.phrases import BUTTON_ROLES, Lesson, make_labels
from envs_node.policy.models.pointer.screens import Move, Screen

_RECIPES: dict[str, tuple[float, Callable[[random.Random], Lesson]]] = {
    "append": (4.5, editing.append_text),
    "boxes": (0.7, controls.tick_boxes),
    "buttons": (1.2, controls.push_buttons),
    "cells": (3, keyboard.fill_cells),
    "chords": (1.5, keyboard.press_chords),
    "command": (2.5, keyboard.run_command),
    "context": (0.4, icons.use_context_menu),
    "dialog": (4, controls.name_in_dialog),
    "form": (1, controls.fill_form),
    "icon": (0.4, icons.open_icon),
    "keypad": (0.3, controls.push_keypad),
    "menu": (4, controls.use_menu),
    "overwrite": (3, editing.overwrite_text),
    "paragraph": (0.6, editing.click_into_text),
    "rename": (0.7, icons.rename_icon),
    "sequence": (6.5, keyboard.follow_sequence),
    "style": (2, editing.style_text),
    "type": (3, editing.type_text),
}
"""How often each kind is drawn, and what makes it."""
_NEVER_LABELS = frozenset(
    {"file", "edit", "document", "save", "saving", "open", "view", "insert", "create", "delete",
     "search", "format", "all", "select", "select all", "enter"}
)  # fmt: skip
"""Words of instructions that real menus say too: no label is made of them."""


def make_lesson(chance: random.Random, kind: str | None = None) -> Lesson:
    """Draw a task of a kind, or of any."""
    weights = [weight for weight, _ in _RECIPES.values()]
    chosen = kind or chance.choices(list(_RECIPES), weights)[0]
    screen, instruction, moves = _RECIPES[chosen][1](chance)
    _dress(screen, instruction, moves, chance)
    return screen, instruction, moves


def kinds() -> tuple[str, ...]:
    """Names of the kinds."""
    return tuple(_RECIPES)


def _dress(screen: Screen, instruction: str, moves: list[Move], chance: random.Random) -> None:
    """Add what a window has besides what the task needs.

    Some of it repeats words of the instruction, as real menus do by chance: a policy must not
    click whatever sounds familiar.
    """
    spare = make_labels(chance, 60)
    decoys = _decoys(instruction, moves, chance)
    spare += decoys[: chance.randint(0, 5)]
    chance.shuffle(spare)
    if not screen.menus and chance.random() < 0.7:
        screen.menus = {name: [] for name in decoys[: chance.choice((0, 1, 1, 2))]}
        screen.menus |= {spare.pop(): [] for _ in range(chance.randint(2, 6))}
    for items in screen.menus.values():
        items += [spare.pop() + chance.choice(("", "", "...")) for _ in range(chance.randint(2, 4))]
        items += [item for item in decoys[:2] if chance.random() < 0.3 and item not in items]
        chance.shuffle(items)
    known = {name for _, name in screen.buttons} | set(screen.menus)
    count = chance.choice((0, 0, 2, 5, 9, 16))
    names = [spare.pop() for _ in range(count)]
    names += decoys[2 : 2 + chance.choice((0, 0, 1, 2))] if count else []
    screen.buttons += [(chance.choice(BUTTON_ROLES), n) for n in names if n not in known]
    if chance.random() < 0.2:
        screen.buttons += [("push button", "")] * chance.randint(1, 3)
    chance.shuffle(screen.buttons)


def _decoys(instruction: str, moves: list[Move], chance: random.Random) -> list[str]:
    """Labels out of the instruction's own words that are no part of what the task needs."""
    words = [word.strip(".,;:'\"()>") for word in instruction.split()]
    words = [word.lower() for word in words if word.isalpha() and len(word) > 2]
    pairs = [f"{one} {other}" for one, other in pairwise(words)]
    needed = [move.text.lower() for move in moves]
    found = [
        text.capitalize() if chance.random() < 0.5 else text.title()
        for text in dict.fromkeys(words + pairs)
        if text not in _NEVER_LABELS
        and not any(text in one or one.removesuffix("...") in text for one in needed if one)
    ]
    chance.shuffle(found)
    return found
