"""How generated tasks are worded: quoting, asking to save, labels that do not clash."""

from __future__ import annotations

import random

from envs_node.policy.models.pointer.screens import Move, Screen
from envs_node.policy.models.pointer.words import make_label, make_name, make_value

Lesson = tuple[Screen, str, list[Move]]
"""A screen, an instruction, and the moves that do it, without the closing `finish`."""

BUTTON_ROLES = ("push button",) * 4 + ("toggle button",)

_SAVES = (
    " and save", ", then save", ", saving it afterwards", "; save at the end", ". Save the work.",
    " and have it saved", ". Finally save", ", and do not forget to save", " and then save all",
    ". Afterwards save the changes", " before saving", " and save this {n}", ", then save that {n}",
    ". The {n} is to be saved after that", ", and in the end save your {n}",
)  # fmt: skip
_THINGS = ("file", "page", "sheet", "document", "text", "list", "letter", "work")


def make_labels(chance: random.Random, count: int) -> list[str]:
    """That many labels of which none contains another."""
    found: list[str] = []
    while len(found) < count:
        label = make_label(chance)
        if not any(label.lower() in old.lower() or old.lower() in label.lower() for old in found):
            found.append(label)
    return found


def quote(chance: random.Random, value: str) -> str:
    """A value as people quote it, or bare when it is short."""
    draw = chance.random() * (0.8 if value.count(" ") > 2 else 1.0)
    return f"'{value}'" if draw < 0.6 else f'"{value}"' if draw < 0.8 else value


def say(chance: random.Random, wordings: tuple[str, ...], **slots: str) -> str:
    """One of the wordings, its slots filled."""
    return chance.choice(wordings).format(**slots)


def ask_to_save(
    chance: random.Random, instruction: str, moves: list[Move], share: float = 0.8
) -> tuple[str, list[Move]]:
    """Ask for saving too, as often as `share` says."""
    if chance.random() >= share:
        return instruction, moves
    ending = say(chance, _SAVES, n=chance.choice(_THINGS))
    return instruction.rstrip(".") + ending, [*moves, Move("key", "ctrl+s")]


def make_editor(chance: random.Random) -> Screen:
    """A window whose keyboard focus is in a text."""
    screen = Screen(chance, chance.choice((make_name(chance) + " - ", "")) + make_label(chance))
    screen.area = " ".join(make_value(chance) for _ in range(chance.randint(0, 3)))
    return screen


def make_window(chance: random.Random) -> Screen:
    """An empty window."""
    return Screen(chance, chance.choice((make_label(chance), make_name(chance), "")))
