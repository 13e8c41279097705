"""Generated tasks that live by the keyboard: chords, sequences, sheets and shells."""

from __future__ import annotations

import random

from envs_node.policy.models.pointer.phrases import (
    Lesson,
    ask_to_save,
    make_editor,
    make_labels,
    make_window,
    quote,
    say,
)
from envs_node.policy.models.pointer.screens import Move
from envs_node.policy.models.pointer.vocabulary import CHORDS
from envs_node.policy.models.pointer.words import make_name, make_number, make_value


def press_chords(chance: random.Random) -> Lesson:
    """One or two chords."""
    screen = make_editor(chance) if chance.random() < 0.5 else make_window(chance)
    wanted = [chance.choice(CHORDS) for _ in range(chance.choice((1, 1, 2, 3)))]
    wordings = ("Hit {k}", "Push {k} on the keyboard", "Give the shortcut {k}",
                "The keys {k}, please", "On the keyboard: {k}")  # fmt: skip
    said = say(chance, wordings, k=chance.choice((" then ", ", ", " and ")).join(wanted))
    return screen, said, [Move("key", chord) for chord in wanted]


def follow_sequence(chance: random.Random) -> Lesson:
    """Two to five things in the order they are told: what teaches to keep one's place."""
    screen = make_editor(chance) if chance.random() < 0.5 else make_window(chance)
    names = make_labels(chance, 3)
    screen.buttons = [("push button", name) for name in names]
    moves: list[Move] = []
    parts: list[str] = []
    for _ in range(chance.choice((2, 3, 3, 4, 5))):
        draw = chance.random()
        if draw < 0.6:
            chord = chance.choice(CHORDS)
            moves.append(Move("key", chord))
            wordings: tuple[str, ...] = (
                "hit {k}", "press {k}", "{k}", "push {k}", "use {k}", "the {k} key",
                "mark it with {k}", "do it by {k}", "{k} for the next part",
            )  # fmt: skip
            parts.append(say(chance, wordings, k=chord))
        elif draw < 0.8 or not names:
            value = make_value(chance)
            moves.append(Move("type", value))
            wordings = ("enter {v}", "type {v}", "write the name {v}", "input {v}")
            parts.append(say(chance, wordings, v=f"'{value}'"))
        else:
            moves.append(Move("click", names.pop(), "push button"))
            wordings = ("hit {b}", "click {b}", "press {b}", "tap {b}", "go for {b}")
            parts.append(say(chance, wordings, b=moves[-1].text))
    said = chance.choice((", ", ", then ", "; ", " and then ", " and ")).join(parts)
    return screen, *ask_to_save(chance, said[0].upper() + said[1:], moves, 0.5)


def fill_cells(chance: random.Random) -> Lesson:
    """A value into a cell or two, or a chord on one."""
    screen = make_window(chance)
    names = ["ABCDEF"[column] + str(row) for column in range(6) for row in range(1, 13)]
    filled = chance.sample(names, chance.randint(2, 12))
    screen.cells = {name: make_value(chance) for name in filled}
    screen.focus = "A1"
    if chance.random() < 0.35:
        cell, chord = (
            chance.choice(names),
            chance.choice(("delete", "delete", "ctrl+b", "ctrl+i", "f2")),
        )
        wordings: tuple[str, ...] = ("Go to {c}, there hit {k}", "Mark {c} and push {k}",
                                     "{k} on the field {c}", "Pick {c}; then {k}",
                                     "Click on {c}, hit {k}", "Treat {c} with the {k} key",
                                     "Rid cell {c} of its value: {k}" if chord == "delete"
                                     else "{c}, then {k}")  # fmt: skip
        said = say(chance, wordings, c=cell, k=chord)
        moves = [Move("click", cell, "table cell"), Move("key", chord)]
        return screen, *ask_to_save(chance, said, moves)
    moves, parts = [], []
    for cell in chance.sample(names, chance.choice((1, 1, 2))):
        value = make_number(chance) if chance.random() < 0.6 else make_name(chance)
        moves += [Move("click", cell, "table cell"), Move("type", value), Move("key", "enter")]
        shown = quote(chance, value) if chance.random() < 0.4 else value
        wordings = ("{v} into {c}", "{v} in {c}", "{c}: {v}", "into {c} the value {v}",
                    "{c} to {v}")  # fmt: skip
        parts.append(say(chance, wordings, v=shown, c=cell))
    wordings = ("Write {p}", "Fill {p}", "The sheet should get {p}", "Record {p}", "Have {p}",
                "Put {p}", "Note {p} on the sheet", "Change {p}")  # fmt: skip
    said = say(chance, wordings, p=chance.choice((" and ", ", then ")).join(parts))
    if len(parts) == 1 and chance.random() < 0.4:
        wordings = ("Go to {c}, type {v} and hit enter", "Pick {c}, enter {v}, push enter",
                    "Click on {c}; type {v}, then the enter key", "In {c} type {v}, then enter",
                    "Mark the cell {c}, write {v}, hit enter", "The cell {c} is to be {v}",
                    "Let the cell {c} be {v}", "Make cell {c} hold {v}")  # fmt: skip
        said = say(chance, wordings, v=shown, c=cell)
    return screen, *ask_to_save(chance, said, moves)


def run_command(chance: random.Random) -> Lesson:
    """A command line or two, each ended by enter."""
    screen = make_window(chance)
    screen.is_terminal = True
    moves, parts = [], []
    for _ in range(chance.choice((1, 1, 1, 2))):
        command = _command_line(chance)
        moves += [Move("type", command), Move("key", "enter")]
        is_long = command.count(" ") > 2 or any(s in command for s in ">|")
        parts.append(f"'{command}'" if is_long else quote(chance, command))
    wordings = ("Run {p} in the shell", "Have the shell do {p}", "At the prompt, execute {p}",
                "Execute {p}", "Let the prompt run {p} with enter", "Do {p} and press enter",
                "Give {p} to the shell and hit enter",
                "In this terminal type {p}, then enter")  # fmt: skip
    said = say(chance, wordings, p=chance.choice((" and then ", ", next ")).join(parts))
    return screen, said, moves


def _command_line(chance: random.Random) -> str:
    words = [chance.choice(("brew", "weigh", "tally", "grind", "sift", "knit"))]
    if chance.random() < 0.4:
        words.append(chance.choice(("--all", "--long", "-" + chance.choice("abcdefp"))))
    words += [make_name(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    if chance.random() < 0.35:
        words += [chance.choice((">", ">", "|", ">>")), make_name(chance)]
    return " ".join(words)
