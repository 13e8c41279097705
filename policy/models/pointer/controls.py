"""Generated tasks on buttons, menus, forms, icons and dialogs."""

from __future__ import annotations

import random

from envs_node.policy.models.pointer.phrases import (
    BUTTON_ROLES,
    Lesson,
    ask_to_save,
    make_editor,
    make_labels,
    make_window,
    quote,
    say,
)
from envs_node.policy.models.pointer.screens import Dialog, Move, Screen
from envs_node.policy.models.pointer.words import make_label, make_name, make_value

_ACCEPTS = ("Accept", "Proceed", "Confirm", "Settle", "Agree")
_REFUSES = ("Dismiss", "Abort", "Refuse", "Never mind")


def push_buttons(chance: random.Random) -> Lesson:
    """One to three buttons, one after the other."""
    screen = make_window(chance)
    names = make_labels(chance, chance.randint(1, 3))
    role = chance.choice(BUTTON_ROLES)
    screen.buttons = [(role, name) for name in names]
    if chance.random() < 0.3:
        screen.area = make_value(chance)
    wordings = ("Hit {b}", "Push {b}", "Activate {b}", "Operate the control {b}", "Tap on {b}",
                "Give {b} a click")  # fmt: skip
    said = chance.choice((", then ", " and after that ", ", next ")).join(names)
    return screen, say(chance, wordings, b=said), [Move("click", b, role) for b in names]


def push_keypad(chance: random.Random) -> Lesson:
    """Keys of a calculator."""
    screen = make_window(chance)
    signs = list("0123456789+-*/=.")
    chance.shuffle(signs)
    screen.fields, screen.buttons = [""], [("push button", sign) for sign in signs]
    wanted = [chance.choice(signs) for _ in range(chance.randint(2, 5))]
    wordings = ("Push the keys {k}", "Key in {k} on the pad", "Hit {k}", "On the pad: {k}")
    said = say(chance, wordings, k=" ".join(wanted))
    return screen, said, [Move("click", sign, "push button") for sign in wanted]


def use_menu(chance: random.Random) -> Lesson:
    """A menu or a submenu, often after selecting everything."""
    screen = make_editor(chance) if chance.random() < 0.7 else make_window(chance)
    names = make_labels(chance, chance.randint(3, 7))
    menu = names[0]
    item = make_label(chance) + chance.choice(("", "", " / " + make_label(chance), "..."))
    if chance.random() < 0.3:
        item = chance.choice(("To ", "As ", "By ")) + item
    screen.item_role = chance.choice(("menu item",) * 3 + ("check menu item", "radio menu item"))
    screen.menus = {name: [] for name in chance.sample(names, len(names))}
    moves = [Move("click", menu, "menu")]
    if chance.random() < 0.4:
        said = _add_submenu(chance, screen, menu, item, moves)
    else:
        screen.menus[menu].append(item)
        wordings: tuple[str, ...]
        wordings = ("Go through {m} > {i}", "Take {i} out of the {m} menu", "Run {m} > {i}",
                    "{m} > {i}", "The {m} menu has {i}; activate it", "Under {m}, click on {i}",
                    "Carry out {i}, found in the menu {m}",
                    "What the menu {m} offers as {i} is wanted")  # fmt: skip
        said = say(chance, wordings, m=menu, i=_plain(item, chance))
    moves.append(Move("click", item, screen.item_role))
    if screen.area is not None and chance.random() < 0.5:
        moves.insert(0, Move("key", "ctrl+a"))
        wordings = ("Mark all of the text. {t}", "With the full text marked, {t}",
                    "{t}, for the entire text", "Highlight all, and {t}",
                    "After a select-all: {t}", "Select the lot; {t}",
                    "Everything selected, {t}")  # fmt: skip
        said = say(chance, wordings, t=said)
    return screen, *ask_to_save(chance, said, moves, 0.6 if screen.area is not None else 0.1)


def _add_submenu(
    chance: random.Random, screen: Screen, menu: str, item: str, moves: list[Move]
) -> str:
    submenu = " ".join(make_labels(chance, chance.choice((1, 2))))
    screen.menus[menu].append(submenu)
    screen.submenus[submenu] = [item, *make_labels(chance, chance.randint(1, 4))]
    chance.shuffle(screen.submenus[submenu])
    moves.append(Move("click", submenu, "menu"))
    wordings = ("Go through {m} > {s} > {i}", "Take {i} out of {s} in the {m} menu",
                "{m}, {s}, {i}", "Open {m}, point at {s}, and click on {i}",
                "Run {m} > {s} > {i}", "Under {m} > {s} there is {i}: click it")  # fmt: skip
    return say(chance, wordings, m=menu, s=submenu, i=_plain(item, chance))


def fill_form(chance: random.Random) -> Lesson:
    """One or two fields, then a button or enter."""
    screen = make_window(chance)
    screen.fields = make_labels(chance, chance.randint(1, 4))
    used = chance.sample(screen.fields, min(len(screen.fields), chance.choice((1, 2, 2))))
    moves, parts = [], []
    for field in used:
        value = make_value(chance)
        moves += [Move("click", field, "text"), Move("type", value)]
        wordings = ("{v} as {f}", "{v} for {f}", "{f}: {v}", "{v} in the field {f}")
        parts.append(say(chance, wordings, v=quote(chance, value), f=field))
    starts = ("Give {p}", "Provide {p}", "Fill out {p}", "Supply {p}")
    said = say(chance, starts, p=" and ".join(parts))
    if chance.random() < 0.3:
        moves.append(Move("key", "enter"))
        said += chance.choice((", ending with enter", " and hit enter", ", then the enter key"))
    else:
        button = make_label(chance)
        screen.buttons = [("push button", button)]
        moves.append(Move("click", button, "push button"))
        ends = (", then hit {b}", " and tap {b}", "; finish by clicking {b}")
        said += say(chance, ends, b=button)
    return screen, said, moves


def tick_boxes(chance: random.Random) -> Lesson:
    """A page tab, check boxes and a button."""
    screen = make_window(chance)
    screen.tabs = make_labels(chance, chance.choice((0, 3, 4)))
    screen.boxes = make_labels(chance, chance.randint(2, 5))
    button = make_label(chance)
    screen.buttons = [("push button", button)]
    moves, parts = [], []
    if screen.tabs:
        tab = chance.choice(screen.tabs)
        moves.append(Move("click", tab, "page tab"))
        parts.append(say(chance, ("On the tab {t}", "Go to {t}", "Under {t}"), t=tab))
    ticked = chance.sample(screen.boxes, chance.choice((1, 2)))
    moves += [Move("click", box, "check box") for box in ticked]
    parts.append(say(chance, ("tick {b}", "turn on {b}", "check {b}"), b=" and ".join(ticked)))
    moves.append(Move("click", button, "push button"))
    parts.append(say(chance, ("then hit {b}", "end with {b}", "push {b}"), b=button))
    return screen, ", ".join(parts), moves


def name_in_dialog(chance: random.Random) -> Lesson:
    """A menu path or a chord opens a dialog that wants a name."""
    screen = make_window(chance)
    name, accept = make_name(chance), chance.choice(_ACCEPTS)
    path = make_labels(chance, chance.choice((2, 2, 3)))
    if chance.random() < 0.5:  # what opens the dialog often says what its button says
        path[-1] = f"{accept} {path[-1]}"
    path[-1] += chance.choice(("...", "...", ""))
    buttons = [accept, chance.choice(_REFUSES)]
    chance.shuffle(buttons)
    dialog = Dialog(
        title=chance.choice((path[-1].removesuffix("..."), make_label(chance))),
        label=chance.choice(("Name of it:", "The name:", make_label(chance) + ":")),
        value=chance.choice(("", "Untitled", f"Fresh {make_label(chance)}", make_name(chance))),
        buttons=tuple(buttons),
    )
    moves, way = _way_to_dialog(chance, screen, path, dialog)
    said_name = quote(chance, name)
    wordings = ("Make one called {v} through {w}, then {b}",
                "By way of {w}, name it {v} and hit {b}",
                "Go through {w}, enter {v}, and end with {b}", "{w}, then {v}, then {b}",
                "Run {w}; it shall be named {v}; finish by {b}",
                "Get {w} done under the name {v}, pushing {b}",
                "Take {w}, giving the name {v}, and push {b}",
                "Open {w}, write the name {v} and tap {b}")  # fmt: skip
    ends_by_key = chance.random() < 0.2
    moves.append(Move("type", name))
    moves.append(Move("key", "enter") if ends_by_key else Move("click", accept, "push button"))
    if chance.random() < 0.25:
        moves.insert(-2, Move("key", "ctrl+a"))
        way += chance.choice(
            (" and select-all", ", mark what is there", " with the old name marked")
        )
    return (
        screen,
        say(chance, wordings, v=said_name, w=way, b="enter" if ends_by_key else accept),
        moves,
    )


def _way_to_dialog(
    chance: random.Random, screen: Screen, path: list[str], dialog: Dialog
) -> tuple[list[Move], str]:
    if chance.random() < 0.3:
        chord = chance.choice(("ctrl+shift+n", "ctrl+n", "f2", "f2", "ctrl+shift+s"))
        screen.dialogs[chord] = dialog
        way = chance.choice((chord, f"the {chord} keys"))
        if chance.random() < 0.5:
            return [Move("key", "ctrl+a"), Move("key", chord)], "ctrl+a and " + way
        return [Move("key", chord)], way
    screen.menus = {label: [] for label in [path[0], *make_labels(chance, 4)]}
    screen.menus[path[0]].append(path[1])
    if len(path) == 3:
        screen.submenus[path[1]] = [path[2], *make_labels(chance, chance.randint(0, 2))]
    screen.dialogs[path[-1]] = dialog
    moves = [Move("click", label, "menu") for label in path[:-1]]
    return [*moves, Move("click", path[-1], "menu item")], " > ".join(
        [*path[:-1], _plain(path[-1], chance)]
    )


def _plain(item: str, chance: random.Random) -> str:
    """A menu item as people write it: often without its ellipsis."""
    return item.removesuffix("...") if chance.random() < 0.5 else item
