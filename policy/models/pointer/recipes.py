"""Kinds of generated tasks: what the screen holds, what is asked, and the moves that do it.

No wording and no label here occurs in the bundled tasks (a test compares them).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from envs_node.policy.models.pointer.screens import EDITOR, Dialog, Move, Screen
from envs_node.policy.models.pointer.vocabulary import CHORDS
from envs_node.policy.models.pointer.words import (
    make_label,
    make_name,
    make_number,
    make_value,
)

Lesson = tuple[Screen, str, list[Move]]
"""A screen, an instruction, and the moves that do it, without the closing `finish`."""

_SAVES = (
    " and save", ", then save", ", saving it afterwards", "; save at the end", ". Save the work.",
    " and have it saved", ". Finally save", ", and do not forget to save", " and then save all",
    ". Afterwards save the changes", " before saving",
)  # fmt: skip
_ACCEPTS = ("Accept", "Proceed", "Confirm", "Settle", "Agree")
_REFUSES = ("Dismiss", "Abort", "Refuse", "Never mind")
_BUTTON_ROLES = ("push button",) * 4 + ("toggle button",)


def make_lesson(chance: random.Random, kind: str | None = None) -> Lesson:
    """Draw a task of a kind, or of any."""
    names, weights = zip(*_WEIGHTS.items(), strict=True)
    chosen = kind or chance.choices(names, weights)[0]
    return _RECIPES[chosen](chance)


def kinds() -> tuple[str, ...]:
    """Names of the kinds."""
    return tuple(_RECIPES)


def _labels(chance: random.Random, count: int) -> list[str]:
    """That many labels of which none contains another."""
    found: list[str] = []
    while len(found) < count:
        label = make_label(chance)
        if not any(label.lower() in old.lower() or old.lower() in label.lower() for old in found):
            found.append(label)
    return found


def _quoted(chance: random.Random, value: str) -> str:
    """A value as people quote it, or bare when it is short."""
    draw = chance.random() * (0.8 if value.count(" ") > 2 else 1.0)
    return f"'{value}'" if draw < 0.6 else f'"{value}"' if draw < 0.8 else value


def _say(chance: random.Random, wordings: tuple[str, ...], **slots: str) -> str:
    return chance.choice(wordings).format(**slots)


def _plain(item: str, chance: random.Random) -> str:
    """A menu item as people write it: often without its ellipsis."""
    return item.removesuffix("...") if chance.random() < 0.5 else item


def _dress(screen: Screen, chance: random.Random) -> None:
    """Add what a window has besides what the task needs."""
    spare = _labels(chance, 60)
    if not screen.menus and chance.random() < 0.6:
        screen.menus = {spare.pop(): [] for _ in range(chance.randint(2, 7))}
    for items in screen.menus.values():
        items += [spare.pop() + chance.choice(("", "", "...")) for _ in range(chance.randint(2, 4))]
        chance.shuffle(items)
    count = chance.choice((0, 0, 2, 5, 9, 16))
    screen.buttons += [(chance.choice(_BUTTON_ROLES), spare.pop()) for _ in range(count)]
    if chance.random() < 0.2:
        screen.buttons += [("push button", "")] * chance.randint(1, 3)
    chance.shuffle(screen.buttons)


def _editor(chance: random.Random) -> Screen:
    screen = Screen(chance, chance.choice((make_name(chance) + " - ", "")) + make_label(chance))
    screen.area = " ".join(make_value(chance) for _ in range(chance.randint(0, 3)))
    return screen


def _window(chance: random.Random) -> Screen:
    return Screen(chance, chance.choice((make_label(chance), make_name(chance), "")))


def _saved(
    chance: random.Random, instruction: str, moves: list[Move], share: float = 0.8
) -> tuple[str, list[Move]]:
    """Ask for saving too, as often as `share` says."""
    if chance.random() >= share:
        return instruction, moves
    return instruction.rstrip(".") + chance.choice(_SAVES), [*moves, Move("key", "ctrl+s")]


def _button(chance: random.Random) -> Lesson:
    screen = _window(chance)
    names = _labels(chance, chance.randint(1, 3))
    role = chance.choice(_BUTTON_ROLES)
    screen.buttons = [(role, name) for name in names]
    if chance.random() < 0.3:
        screen.area = make_value(chance)
    said = chance.choice((", then ", " and after that ", ", next ")).join(names)
    wordings = ("Hit {b}", "Push {b}", "Activate {b}", "Operate the control {b}", "Tap on {b}",
                "Give {b} a click")  # fmt: skip
    _dress(screen, chance)
    return screen, _say(chance, wordings, b=said), [Move("click", b, role) for b in names]


def _open_icon(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 9))]
    name = chance.choice(screen.icons)
    wordings = ("Double-click on {n}", "Go into {n} by a double click", "Double click {n}",
                "Launch {n} with two quick clicks")  # fmt: skip
    _dress(screen, chance)
    return (
        screen,
        _say(chance, wordings, n=_quoted(chance, name)),
        [Move("double_click", name, "icon")],
    )


def _context_menu(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 7))]
    name, items = chance.choice(screen.icons), _labels(chance, chance.randint(3, 8))
    screen.contexts = items
    wordings = ("From the context menu of {n} take {i}", "Right-click {n} and pick {i}",
                "{i} is wanted from the right-click menu of {n}")  # fmt: skip
    _dress(screen, chance)
    moves = [Move("right_click", name, "icon"), Move("click", items[0], "menu item")]
    chance.shuffle(screen.contexts)
    return screen, _say(chance, wordings, n=name, i=moves[1].text), moves


def _menu(chance: random.Random) -> Lesson:
    screen = _editor(chance) if chance.random() < 0.7 else _window(chance)
    depth = chance.choice((1, 1, 2))
    names = _labels(chance, chance.randint(3, 7))
    menu, sub = names[0], make_label(chance) + " " + make_label(chance).lower()
    item = make_label(chance) + chance.choice(("", "", " / " + make_label(chance), "..."))
    if chance.random() < 0.3:
        item = chance.choice(("To ", "As ", "By ")) + item
    screen.item_role = chance.choice(("menu item",) * 3 + ("check menu item", "radio menu item"))
    screen.menus = {name: [] for name in chance.sample(names, len(names))}
    moves = [Move("click", menu, "menu")]
    if depth == 2:
        screen.menus[menu].append(sub)
        screen.submenus[sub] = [item, *_labels(chance, chance.randint(1, 4))]
        chance.shuffle(screen.submenus[sub])
        moves.append(Move("click", sub, "menu"))
        wordings = ("Go through {m} > {s} > {i}", "Take {i} out of {s} in the {m} menu", "{m}, {s}, {i}",
                    "Open {m}, point at {s}, and click on {i}", "Run {m} > {s} > {i}",
                    "Under {m} > {s} there is {i}: click it")  # fmt: skip
    else:
        screen.menus[menu].append(item)
        wordings = ("Go through {m} > {i}", "Take {i} out of the {m} menu", "Run {m} > {i}", "{m} > {i}",
                    "The {m} menu has {i}; activate it", "Under {m}, click on {i}",
                    "Carry out {i}, found in the menu {m}")  # fmt: skip
    moves.append(Move("click", item, screen.item_role))
    said = _say(chance, wordings, m=menu, s=sub, i=_plain(item, chance))
    if screen.area is not None and chance.random() < 0.55:
        moves.insert(0, Move("key", "ctrl+a"))
        said = _say(chance, ("Mark all of the text. {t}", "With the full text marked, {t}",
                             "{t}, for the entire text", "Highlight all, and {t}",
                             "After a select-all: {t}", "Select the lot; {t}"), t=said)  # fmt: skip
    _dress(screen, chance)
    return screen, *_saved(chance, said, moves, 0.6 if screen.area is not None else 0.1)


def _form(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.fields = _labels(chance, chance.randint(1, 4))
    button = make_label(chance)
    used = chance.sample(screen.fields, min(len(screen.fields), chance.choice((1, 2, 2))))
    moves, parts = [], []
    for field in used:
        value = make_value(chance)
        moves += [Move("click", field, "text"), Move("type", value)]
        parts.append(_say(chance, ("{v} as {f}", "{v} for {f}", "{f}: {v}", "{v} in the field {f}"),
                          v=_quoted(chance, value), f=field))  # fmt: skip
    said = _say(
        chance, ("Give {p}", "Provide {p}", "Fill out {p}", "Supply {p}"), p=" and ".join(parts)
    )
    if chance.random() < 0.3:
        moves.append(Move("key", "enter"))
        said += chance.choice((", ending with enter", " and hit enter", ", then the enter key"))
    else:
        screen.buttons = [("push button", button)]
        moves.append(Move("click", button, "push button"))
        said += _say(
            chance, (", then hit {b}", " and tap {b}", "; finish by clicking {b}"), b=button
        )
    _dress(screen, chance)
    return screen, said, moves


def _append(chance: random.Random) -> Lesson:
    screen, value = _editor(chance), make_value(chance)
    moves = [Move("key", "ctrl+end"), Move("type", value)]
    wordings = ("Put {v} below the existing text", "Insert {v} after the last line", "Attach {v} at the bottom",
                "Let the text close with {v}", "Continue the text at its end with {v}",
                "{v} must come last in the text", "Go to the very end and enter {v}")  # fmt: skip
    if chance.random() < 0.25:
        moves.insert(1, Move("key", "enter"))
        wordings = ("On a fresh line after the last one, enter {v}",
                    "Start a new line at the bottom, with {v} in it",
                    "Open a fresh line at the very end for {v}")  # fmt: skip
    if chance.random() < 0.25:
        moves.append(Move("key", "enter"))
        wordings = tuple(f"{wording} followed by enter" for wording in wordings)
    _dress(screen, chance)
    return screen, *_saved(chance, _say(chance, wordings, v=_quoted(chance, value)), moves)


def _overwrite(chance: random.Random) -> Lesson:
    screen, value = _editor(chance), make_value(chance)
    moves = [Move("key", "ctrl+a"), Move("type", value)]
    wordings = ("Substitute all of the content by {v}", "Let {v} be the only text", "Rewrite it all as {v}",
                "Drop what is there and enter {v} instead", "Exchange the entire text for {v}",
                "Only {v} shall remain of the text")  # fmt: skip
    if chance.random() < 0.2:
        moves = [Move("key", "ctrl+a"), Move("key", "delete")]
        wordings = ("Empty the text", "Clear all of the text away", "Erase the entire content")
    _dress(screen, chance)
    return screen, *_saved(chance, _say(chance, wordings, v=_quoted(chance, value)), moves)


def _type_here(chance: random.Random) -> Lesson:
    screen, value = _editor(chance), make_value(chance)
    moves = [Move("type", value)]
    if chance.random() < 0.3:
        moves.insert(0, Move("key", "ctrl+home"))
        wordings = ("Begin the text with {v}", "Place {v} before the first line", "Prefix the text by {v}",
                    "At the very top, enter {v}", "Put {v} at the start of the text")  # fmt: skip
    else:
        wordings = ("Write {v} here", "Input {v} in the editor", "Enter {v}", "Key in {v}",
                    "Just write {v}", "The text gets {v} where the cursor is")  # fmt: skip
    said = _say(chance, wordings, v=_quoted(chance, value))
    if chance.random() < 0.4:
        button = make_label(chance)
        screen.buttons = [("push button", button)]
        moves.append(Move("click", button, "push button"))
        said += _say(
            chance, (", then hit {b}", " and push {b}", "; close with the {b} control"), b=button
        )
    else:
        said, moves = _saved(chance, said, moves)
    _dress(screen, chance)
    return screen, said, moves


def _keypad(chance: random.Random) -> Lesson:
    screen = _window(chance)
    signs = list("0123456789+-*/=.")
    chance.shuffle(signs)
    screen.fields, screen.buttons = [""], [("push button", sign) for sign in signs]
    wanted = [chance.choice(signs) for _ in range(chance.randint(2, 5))]
    wordings = ("Push the keys {k}", "Key in {k} on the pad", "Hit {k}", "On the pad: {k}")
    said = _say(chance, wordings, k=" ".join(wanted))
    return screen, said, [Move("click", sign, "push button") for sign in wanted]


def _sheet(chance: random.Random) -> Lesson:
    screen = _window(chance)
    names = ["ABCDEF"[c] + str(r) for c in range(6) for r in range(1, 13)]
    screen.cells = {
        name: make_value(chance) for name in chance.sample(names, chance.randint(2, 12))
    }
    screen.focus = "A1"
    moves, parts = [], []
    for name in chance.sample(names, chance.choice((1, 1, 2))):
        value = make_number(chance) if chance.random() < 0.6 else make_name(chance)
        moves += [Move("click", name, "table cell"), Move("type", value), Move("key", "enter")]
        parts.append(_say(chance, ("{v} into {c}", "{v} in {c}", "{c}: {v}", "into {c} the value {v}"),
                          v=_quoted(chance, value) if chance.random() < 0.4 else value, c=name))  # fmt: skip
    wordings = ("Write {p}", "Fill {p}", "The sheet should get {p}", "Record {p}", "Have {p}",
                "Put {p}", "Note {p} on the sheet")  # fmt: skip
    said = _say(chance, wordings, p=chance.choice((" and ", ", then ")).join(parts))
    _dress(screen, chance)
    return screen, *_saved(chance, said, moves)


def _named_dialog(chance: random.Random) -> Lesson:
    screen = _window(chance)
    menu, item = _labels(chance, 2)
    item += chance.choice(("...", "...", ""))
    name, accept = make_name(chance), chance.choice(_ACCEPTS)
    buttons = [accept, chance.choice(_REFUSES)]
    chance.shuffle(buttons)
    dialog = Dialog(title=chance.choice((item.removesuffix("..."), make_label(chance))),
                    label=chance.choice(("Name of it:", "The name:", make_label(chance) + ":")),
                    value=chance.choice(("", "Untitled", make_name(chance))), buttons=tuple(buttons))  # fmt: skip
    slots = {"m": menu, "i": _plain(item, chance), "v": _quoted(chance, name), "b": accept}
    if chance.random() < 0.3:
        chord = chance.choice(("ctrl+shift+n", "ctrl+n", "f2", "f2", "ctrl+shift+s"))
        screen.dialogs[chord] = dialog
        moves = [Move("key", chord)]
        wordings = ("Hit {k} and call it {v}, then {b}", "By way of {k} make one named {v} and {b}",
                    "With {k}, name it {v}; end with {b}")  # fmt: skip
    else:
        screen.menus = {label: [] for label in [menu, *_labels(chance, 4)]}
        screen.menus[menu].append(item)
        screen.dialogs[item] = dialog
        moves = [Move("click", menu, "menu"), Move("click", item, "menu item")]
        wordings = ("Make one called {v} through {m} > {i}, then {b}", "By way of {m} > {i}, name it {v} and hit {b}",
                    "Take {i} out of the {m} menu, enter {v}, and end with {b}",
                    "Run {m} > {i}; it shall be named {v}; finish by {b}")  # fmt: skip
    said = _say(chance, wordings, k=moves[0].text, **slots)
    moves.append(Move("type", name))
    if chance.random() < 0.25:
        said = said.replace(accept, chance.choice(("the enter key", "enter")))
        moves.append(Move("key", "enter"))
    else:
        moves.append(Move("click", accept, "push button"))
    _dress(screen, chance)
    return screen, said, moves


def _chords(chance: random.Random) -> Lesson:
    screen = _editor(chance)
    wanted = [chance.choice(CHORDS) for _ in range(chance.choice((1, 1, 2)))]
    said = [_say(chance, ("{k}", "{k}", "{k}"), k=chord) for chord in wanted]
    wordings = (
        "Hit {k}",
        "Push {k} on the keyboard",
        "Give the shortcut {k}",
        "The keys {k}, please",
    )
    _dress(screen, chance)
    return screen, _say(chance, wordings, k=" then ".join(said)), [Move("key", k) for k in wanted]


def _command(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.is_listed = chance.random() < 0.4
    moves, parts = [], []
    for _ in range(chance.choice((1, 1, 2))):
        words = [chance.choice(("brew", "weigh", "tally", "grind", "sift", "knit"))]
        words += chance.choice(
            ([], ["-" + chance.choice("abcdefp")], ["--" + chance.choice(("all", "long"))])
        )
        words += [make_name(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
        command = " ".join(words)
        moves += [Move("type", command), Move("key", "enter")]
        parts.append(_quoted(chance, command) if len(words) < 3 else f"'{command}'")
    wordings = ("Run {p} in the shell", "Have the shell do {p}", "At the prompt, execute {p}",
                "Execute {p}", "Let the prompt run {p} with enter", "Give {p} to the shell and hit enter")  # fmt: skip
    return (
        screen,
        _say(chance, wordings, p=chance.choice((" and then ", ", next ")).join(parts)),
        moves,
    )


def _sequence(chance: random.Random) -> Lesson:
    """Three to six things in the order they are told: what teaches to keep one's place."""
    screen = _editor(chance)
    names = _labels(chance, 3)
    screen.buttons = [("push button", name) for name in names]
    moves: list[Move] = []
    parts: list[str] = []
    for _ in range(chance.choice((2, 3, 3, 4, 5))):
        draw = chance.random()
        if draw < 0.55:
            chord = chance.choice(CHORDS)
            moves.append(Move("key", chord))
            parts.append(_say(chance, ("hit {k}", "press {k}", "{k}", "push {k}", "use {k}",
                                       "the {k} key", "mark it with {k}"), k=chord))  # fmt: skip
        elif draw < 0.8:
            value = make_value(chance)
            moves.append(Move("type", value))
            parts.append(_say(chance, ("enter {v}", "type {v}", "write the name {v}", "input {v}"),
                              v=f"'{value}'"))  # fmt: skip
        elif names:
            moves.append(Move("click", names.pop(), "push button"))
            parts.append(_say(chance, ("hit {b}", "click {b}", "press {b}", "tap {b}", "go for {b}"),
                              b=moves[-1].text))  # fmt: skip
    joiner = chance.choice((", ", ", then ", "; ", " and then "))
    said = joiner.join(parts)
    _dress(screen, chance)
    return screen, *_saved(chance, said[0].upper() + said[1:], moves, 0.5)


def _styled(chance: random.Random) -> Lesson:
    screen = _editor(chance)
    if chance.random() < 0.5:
        screen.area, screen.paragraphs = (
            None,
            [make_value(chance) for _ in range(chance.randint(1, 3))],
        )
    if chance.random() < 0.45:
        chord, style = chance.choice(
            (("ctrl+b", "bold"), ("ctrl+i", "italic"), ("ctrl+u", "underlined"))
        )
        move, how = Move("key", chord), chance.choice((style, f"{style} ({chord})"))
        wordings = (
            "Have the entire text in {h}",
            "Turn all of the text {h}",
            "{h}: that is how all text should be",
        )
    else:
        name, role = make_label(chance), chance.choice(("push button", "toggle button"))
        screen.buttons = [(role, name)]
        move, how = Move("click", name, role), name
        wordings = ("Mark all of the text and push {h}", "With the full text marked, hit {h}",
                    "Put {h} on the entire text", "Highlight all, next tap {h}")  # fmt: skip
    _dress(screen, chance)
    return screen, *_saved(chance, _say(chance, wordings, h=how), [Move("key", "ctrl+a"), move])


def _paragraph(chance: random.Random) -> Lesson:
    screen, value = _window(chance), make_value(chance)
    if chance.random() < 0.4:
        screen.area, screen.focus = make_value(chance), "-"
        moves = [Move("click", EDITOR, "text"), Move("type", value)]
        wordings = (
            "Click in the text, then write {v}",
            "Put the cursor into the text and enter {v}",
        )
        said = _say(chance, wordings, v=_quoted(chance, value))
    else:
        screen.paragraphs = [f"{make_value(chance)} {i}" for i in range(chance.randint(1, 4))]
        place = chance.choice(screen.paragraphs)
        key = chance.choice(("end", "end", "home"))
        moves = [Move("click", place, "paragraph"), Move("key", key), Move("type", value)]
        where = "behind" if key == "end" else "in front of"
        said = f"In the paragraph '{place}', enter {_quoted(chance, value)} {where} the rest"
    _dress(screen, chance)
    return screen, *_saved(chance, said, moves)


def _boxes(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.tabs = _labels(chance, chance.choice((0, 3, 4)))
    screen.boxes = _labels(chance, chance.randint(2, 5))
    button = make_label(chance)
    screen.buttons = [("push button", button)]
    moves, parts = [], []
    if screen.tabs:
        tab = chance.choice(screen.tabs)
        moves.append(Move("click", tab, "page tab"))
        parts.append(_say(chance, ("on the tab {t}", "go to {t}", "under {t}"), t=tab))
    ticked = chance.sample(screen.boxes, chance.choice((1, 2)))
    moves += [Move("click", box, "check box") for box in ticked]
    parts.append(_say(chance, ("tick {b}", "turn on {b}", "check {b}"), b=" and ".join(ticked)))
    moves.append(Move("click", button, "push button"))
    parts.append(_say(chance, ("then hit {b}", "end with {b}", "push {b}"), b=button))
    _dress(screen, chance)
    return screen, ", ".join(parts).capitalize(), moves


def _rename(chance: random.Random) -> Lesson:
    screen = _window(chance)
    screen.icons = [make_name(chance) for _ in range(chance.randint(2, 7))]
    old, new = chance.choice(screen.icons), make_name(chance)
    moves = [Move("click", old, "icon"), Move("key", "f2"), Move("type", new), Move("key", "enter")]
    wordings = (
        "Give {o} the new name {n}",
        "{o} shall be called {n}",
        "Change the name {o} into {n} (f2)",
    )
    if chance.random() < 0.25:
        moves = [Move("click", old, "icon"), Move("key", "delete")]
        wordings = (
            "Throw {o} away with the delete key",
            "Erase {o} by delete",
            "Get rid of {o}: delete",
        )
    _dress(screen, chance)
    return screen, _say(chance, wordings, o=_quoted(chance, old), n=_quoted(chance, new)), moves


_RECIPES: dict[str, Callable[[random.Random], Lesson]] = {
    "button": _button, "icon": _open_icon, "context": _context_menu, "menu": _menu, "form": _form,
    "append": _append, "overwrite": _overwrite, "type": _type_here, "keypad": _keypad,
    "sheet": _sheet, "dialog": _named_dialog, "chords": _chords, "command": _command,
    "sequence": _sequence, "styled": _styled, "paragraph": _paragraph, "boxes": _boxes, "rename": _rename,
}  # fmt: skip
_WEIGHTS: dict[str, float] = {
    "button": 2, "icon": 1, "context": 1, "menu": 4, "form": 2, "append": 3, "overwrite": 2,
    "type": 2, "keypad": 1, "sheet": 2.5, "dialog": 3, "chords": 1.5, "command": 2, "sequence": 4,
    "styled": 2,
    "paragraph": 1.5, "boxes": 1, "rename": 1,
}  # fmt: skip
