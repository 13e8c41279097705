"""Generated tasks on texts: what is appended, replaced, typed and styled."""

from __future__ import annotations

import random

from envs_node.policy.models.pointer.phrases import (
    Lesson,
    ask_to_save,
    make_editor,
    make_window,
    quote,
    say,
)
from envs_node.policy.models.pointer.screens import EDITOR, Move
from envs_node.policy.models.pointer.words import make_label, make_value

_KEEPERS = ("Saver", "Saving", "Savings", "Saves")
"""Buttons that sound like saving; where one is to be pushed, nothing else saves."""
_THINGS = ("page", "text", "file", "note", "memo", "sheet", "record", "work")
_STYLES = (("ctrl+b", "bold"), ("ctrl+i", "italic"), ("ctrl+u", "underlined"))


def append_text(chance: random.Random) -> Lesson:
    """Something behind all the rest."""
    screen, value = make_editor(chance), make_value(chance)
    moves = [Move("key", "ctrl+end"), Move("type", value)]
    verb = chance.choice(("Add", "Append", "Put", "Insert", "Write", "Attach", "Place"))
    wordings: tuple[str, ...] = (
        verb + " {v} at the end", verb + " {v} at the end of the {t}", verb + " {v} at the bottom",
        verb + " {v} to the end of this {t}", verb + " {v} at the end of your {t}",
        verb + " {v} at the very end of it", verb + " {v} below the last line of the {t}",
        "Append {v} to the {t}", "Append {v} to this {t}", "Append the line {v} to your {t}",
        "Put {v} below the existing text", "Insert {v} after the last line",
        "Attach {v} at the bottom", "Let the text close with {v}", "Append {v}",
        "Continue the text at its end with {v}", "{v} must come last in the text",
        "Go to the very end and enter {v}", "The list goes on with {v} at the end",
        "Add one more line saying {v}", "At the end of the page add {v}",
    )  # fmt: skip
    if chance.random() < 0.2:
        moves.insert(1, Move("key", "enter"))
        wordings = ("On a fresh line after the last one, enter {v}",
                    "Start a new line at the bottom, with {v} in it",
                    "Open a fresh line at the very end for {v}")  # fmt: skip
    said = say(chance, wordings, v=quote(chance, value), t=chance.choice(_THINGS))
    return screen, *_ended(chance, screen.buttons, said, moves)


def overwrite_text(chance: random.Random) -> Lesson:
    """Something in place of all the rest, or nothing at all."""
    screen, value = make_editor(chance), make_value(chance)
    moves = [Move("key", "ctrl+a"), Move("type", value)]
    wordings: tuple[str, ...] = (
        "Substitute all of the content by {v}", "Let {v} be the only text", "Rewrite it all as {v}",
        "Drop what is there and enter {v} instead", "Exchange the entire text for {v}",
        "Only {v} shall remain of the text", "Overwrite all that is here by {v}",
        "Replace the content: {v}", "Have {v} replace every line", "Mark all and type {v} over it",
        "Replace all of it with {v}", "Overwrite the full content with {v}",
        "Select the lot and type {v} over it", "Replace everything that the {t} holds by {v}",
    )  # fmt: skip
    if chance.random() < 0.2:
        moves = [Move("key", "ctrl+a"), Move("key", "delete")]
        wordings = ("Empty the text", "Clear all of the text away", "Erase the entire content")
    said = say(chance, wordings, v=quote(chance, value), t=chance.choice(_THINGS))
    return screen, *_ended(chance, screen.buttons, said, moves)


def type_text(chance: random.Random) -> Lesson:
    """Something where the cursor is, or at the top."""
    screen, value = make_editor(chance), make_value(chance)
    moves = [Move("type", value)]
    wordings: tuple[str, ...] = (
        "Write {v} here", "Input {v} in the editor", "Enter {v}", "Key in {v}", "Just write {v}",
        "The text gets {v} where the cursor is", "Now type {v} into the page",
        "Type {v} right here", "Only type {v}", "Simply type {v}", "Type {v}", "Type {v} now",
    )  # fmt: skip
    if chance.random() < 0.25:
        moves.insert(0, Move("key", "ctrl+home"))
        wordings = ("Begin the text with {v}", "Place {v} before the first line",
                    "Prefix the text by {v}", "At the very top, enter {v}",
                    "Put {v} at the start of the text")  # fmt: skip
    said = say(chance, wordings, v=quote(chance, value))
    return screen, *_ended(chance, screen.buttons, said, moves)


def _ended(
    chance: random.Random, buttons: list[tuple[str, str]], said: str, moves: list[Move]
) -> tuple[str, list[Move]]:
    """End an edit by a button, by saving, or not at all."""
    if chance.random() > 0.3:
        return ask_to_save(chance, said, moves)
    button = chance.choice(_KEEPERS) if chance.random() < 0.5 else make_label(chance)
    buttons.append(("push button", button))
    wordings = (", then hit {b}", " and push {b}", "; close with the {b} control",
                " and click on {b}", ", and press the {b} control")  # fmt: skip
    return said + say(chance, wordings, b=button), [*moves, Move("click", button, "push button")]


def click_into_text(chance: random.Random) -> Lesson:
    """A place in the text first, then the typing."""
    screen, value = make_window(chance), make_value(chance)
    if chance.random() < 0.3:
        screen.area, screen.focus = make_value(chance), "-"
        moves = [Move("click", EDITOR, "text"), Move("type", value)]
        wordings = (
            "Click in the text, then write {v}",
            "Put the cursor into the text and enter {v}",
        )
        return screen, *ask_to_save(chance, say(chance, wordings, v=quote(chance, value)), moves)
    screen.paragraphs = [f"{make_value(chance)} {i}" for i in range(chance.randint(1, 4))]
    place = chance.choice(screen.paragraphs)
    key = chance.choice(("end", "end", "home"))
    moves = [Move("click", place, "paragraph"), Move("key", key), Move("type", value)]
    where = "behind" if key == "end" else "in front of"
    said = f"In the paragraph '{place}', enter {quote(chance, value)} {where} the rest"
    return screen, *ask_to_save(chance, said, moves)


def style_text(chance: random.Random) -> Lesson:
    """Everything selected, then a chord or a toolbar button."""
    screen = make_editor(chance)
    if chance.random() < 0.5:
        screen.area = None
        screen.paragraphs = [make_value(chance) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        chord, style = chance.choice(_STYLES)
        move, how = Move("key", chord), chance.choice((style, f"{style} ({chord})"))
        wordings = ("Have the entire text in {h}", "Turn all of the text {h}",
                    "{h}: that is how all text should be",
                    "All of it {h}: ctrl+a first")  # fmt: skip
    else:
        name, role = make_label(chance), chance.choice(("push button", "toggle button"))
        screen.buttons = [(role, name)]
        move, how = Move("click", name, role), name
        wordings = ("Mark all of the text and push {h}", "With the full text marked, hit {h}",
                    "Put {h} on the entire text", "Highlight all, next tap {h}")  # fmt: skip
    said = say(chance, wordings, h=how)
    return screen, *ask_to_save(chance, said, [Move("key", "ctrl+a"), move])
