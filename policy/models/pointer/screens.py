"""A generated application window: what it shows, and how it answers the moves of a lesson.

It has the shape of real AT-SPI lists (roles, empty names, what an open menu or dialog leaves
visible) and nothing else of real applications: every label comes from `words.py`.
"""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from envs_node.messages.desktop import Element, Observation, Signature

Verb = Literal["click", "double_click", "right_click", "type", "key", "finish"]

EDITOR = "text area"
"""What a desktop calls a large field without a name."""
_SIZES = ((1280, 720),) * 5 + ((1024, 768), (1920, 1080), (1366, 768), (800, 600))
_NO_SIGNATURE = Signature(
    frame="", tiles=b"", columns=0, windows=(), focus="", elements="", files=""
)


class Move(msgspec.Struct, frozen=True):
    """One step of a lesson: a click on a named element, a text, or a chord."""

    verb: Verb
    text: str = ""
    role: str = ""


class Dialog(msgspec.Struct, kw_only=True):
    """A dialog that takes one text and ends by a button."""

    title: str
    label: str
    value: str
    buttons: tuple[str, ...]


class Screen:
    """A window with whatever a recipe puts into it. Lists may be filled until it is first shown."""

    def __init__(self, chance: random.Random, title: str) -> None:
        self.title = title
        self.menus: dict[str, list[str]] = {}
        self.submenus: dict[str, list[str]] = {}
        """Items of a menu that open a further menu."""
        self.dialogs: dict[str, Dialog] = {}
        """What opens a dialog: the text of a menu item, button or chord."""
        self.contexts: list[str] = []
        """Items of the menu that a right click opens."""
        self.buttons: list[tuple[str, str]] = []
        """Role and name."""
        self.fields: list[str] = []
        self.boxes: list[str] = []
        self.tabs: list[str] = []
        self.icons: list[str] = []
        self.paragraphs: list[str] = []
        self.area: str | None = None
        """Text of an editor that fills the window; None for no editor."""
        self.cells: dict[str, str] | None = None
        """Values of a sheet's filled cells; None for no sheet."""
        self.focus = ""
        self.item_role = "menu item"
        self.is_terminal = False
        """A terminal shows itself and nothing else."""
        self._chance = chance
        self._open: list[str] = []
        self._context = False
        self._dialog: Dialog | None = None
        self._values: dict[str, str] = {}
        self._on: set[str] = set()
        self._size = chance.choice(_SIZES)
        width = min(self._size[0], chance.choice((self._size[0], 640, 910)))
        height = min(self._size[1], chance.choice((self._size[1], 480, 600)))
        self._width, self._height = width, height
        self._left = chance.randint(0, self._size[0] - width)
        self._top = chance.randint(0, self._size[1] - height)
        self._bar = chance.choice((18, 20, 24))
        self._row = chance.choice((17, 19, 22, 25))
        self._column = chance.choice((64, 72, 82, 90))
        self._has_location = chance.random() < 0.3
        self._shows_windows = chance.random() < 0.9
        self.icon_role = chance.choice(("icon", "table cell"))
        self._placed: dict[tuple[str, str], Element] = {}

    def observe(self) -> Observation:
        """What an accessibility tree would list now."""
        self._placed = {}
        width, height = self._size
        return Observation(
            width=width,
            height=height,
            elements=tuple(self._elements()),
            signature=_NO_SIGNATURE,
            time_ns=0,
        )

    def locate(self, move: Move) -> Element:
        """The element that a click goes to, of the last observation."""
        role = self.icon_role if move.role == "icon" else move.role
        return self._placed[role, move.text]

    def perform(self, move: Move) -> None:
        """Change as an application would."""
        if move.verb == "type":
            self._enter(move.text)
        elif move.verb == "right_click":
            self._context = True
        elif move.verb == "key":
            self._press(move.text)
        elif move.verb == "click":
            self._click(move)

    def _enter(self, text: str) -> None:
        if self._dialog is not None:
            self._dialog.value = text
        elif self.focus in self.paragraphs:
            self.paragraphs[self.paragraphs.index(self.focus)] += text
            self.focus += text
        elif self.cells is not None:
            self.cells[self.focus] = text
        elif self.area is not None:
            self.area = text if "*" in self._on else f"{self.area} {text}".strip()
            self._on.discard("*")
        else:
            self._values[self.focus] = text

    def _press(self, chord: str) -> None:
        if chord == "enter" and self._dialog is not None:
            self._close_dialog(self._dialog)
        elif chord == "escape":
            self._dialog, self._open, self._context = None, [], False
        elif chord in self.dialogs:
            self._dialog = msgspec.structs.replace(self.dialogs[chord])
        elif chord == "ctrl+a":
            self._on.add("*")

    def _click(self, move: Move) -> None:
        name, role = move.text, move.role
        if role in ("text", "table cell", "paragraph", "icon") and self._dialog is None:
            self.focus = name
        elif role == "menu":
            self._open = [self._open[0], name] if name in self.submenus else [name]
        elif name in self.dialogs:
            self._open, self._context = [], False
            self._dialog = msgspec.structs.replace(self.dialogs[name])
        else:
            self._open, self._context = [], False
            if self._dialog is not None and name in self._dialog.buttons:
                self._close_dialog(self._dialog)
            if role in ("check box", "toggle button", "page tab"):
                self._on ^= {name}

    def _close_dialog(self, dialog: Dialog) -> None:
        """What was named often shows up in the window."""
        self._dialog = None
        if self._chance.random() < 0.7:
            self.icons.append(dialog.value)

    def _elements(self) -> list[Element]:
        if self.is_terminal:
            return self._terminal()
        if self._dialog is not None:
            return self._dialog_elements(self._dialog)
        listed: list[Element] = []
        if self._shows_windows:
            listed.append(self._at("frame", self.title, 0, 0, self._width, self._height))
        listed += self._menu_bar()
        popups = self._popups()
        if popups:
            return (
                listed + popups
                if self._chance.random() < 0.8
                else listed + self._body()[:9] + popups
            )
        return listed + self._body()

    def _terminal(self) -> list[Element]:
        whole = (0, 0, self._width, self._height)
        frame = self._at("frame", self.title, *whole)
        return [frame, self._at("terminal", self.title, *whole, "", ("focused",))]

    def _at(
        self, role: str, name: str, x: int, y: int, width: int, height: int, value: str = "",
        states: tuple[str, ...] = (), key: str | None = None,
    ) -> Element:  # fmt: skip
        """Place an element inside the window; `key` is what a move calls it, its name if None."""
        element = Element(
            role, name, value, self._left + x, self._top + y, max(2, width), height, states
        )
        self._placed[role, name if key is None else key] = element
        return element

    def _menu_bar(self) -> list[Element]:
        shown, x = [], 0
        for name in self.menus:
            width = 16 + 7 * len(name)
            states = ("selected",) if name in self._open else ()
            shown.append(self._at("menu", name, x, self._bar, width, 25, "", states))
            x += width
        return shown

    def _popups(self) -> list[Element]:
        if self._context:
            return [
                self._at("menu item", item, 200, 120 + i * self._row, 220, self._row)
                for i, item in enumerate(self.contexts)
            ]
        shown: list[Element] = []
        for depth, name in enumerate(self._open):
            items = self.submenus[name] if depth else self.menus[name]
            for i, item in enumerate(items):
                role = "menu" if item in self.submenus else self.item_role
                states = ("selected",) if item in self._open else ()
                x, y = 30 + depth * 230, self._bar + 25 + depth * 40 + i * self._row
                shown.append(self._at(role, item, x, y, 230, self._row, "", states))
        return shown

    def _body(self) -> list[Element]:
        y = self._bar + (26 if self.menus else 0)
        shown: list[Element] = []
        step = max(24, min(80, self._width // max(1, min(len(self.buttons), 24))))
        for i, (role, name) in enumerate(self.buttons):
            line, place = divmod(i, max(1, self._width // step))
            states = ("pressed",) if name in self._on else ()
            shown.append(
                self._at(role, name, 4 + place * step, y + line * 36, step - 4, 34, "", states)
            )
            last = y + line * 36 + 40
        y = last if self.buttons else y
        if self._has_location:
            shown.append(self._at("text", "", 90, y, self._width - 200, 30, "", ("editable",)))
            y += 36
        for i, name in enumerate(self.tabs):
            states = ("selected",) if name in self._on else ()
            shown.append(self._at("page tab", name, 5 + i * 95, y, 90, 28, "", states))
        y += 34 if self.tabs else 0
        shown += self._form(y)
        y += 40 * (len(self.fields) + len(self.boxes))
        for i, name in enumerate(self.icons):
            place, line = i % 5, i // 5
            states = ("selected",) if name == self.focus else ()
            shown.append(
                self._at(self.icon_role, name, 8 + place * 110, y + line * 90, 96, 80, "", states)
            )
        return shown + self._document(y)

    def _form(self, y: int) -> list[Element]:
        shown: list[Element] = []
        for i, name in enumerate(self.fields):
            states: tuple[str, ...] = (
                ("editable", "focused") if name == self.focus else ("editable",)
            )
            shown.append(self._at("label", name, 8, y + 8 + i * 40, 100, 17))
            value = self._values.get(name, "")
            shown.append(self._at("text", name, 118, y + i * 40, 220, 34, value, states))
        y += 40 * len(self.fields)
        for i, name in enumerate(self.boxes):
            states = ("checked",) if name in self._on else ()
            shown.append(self._at("check box", name, 10, y + i * 40, 180, 24, "", states))
        return shown

    def _document(self, y: int) -> list[Element]:
        shown: list[Element] = []
        states: tuple[str, ...]
        below = max(60, self._height - y - 30)
        if self.area is not None:
            states = ("editable", "focused") if self.focus == "" else ("editable",)
            shown.append(self._at("text", EDITOR, 1, y, self._width - 2, below, self.area, states))
        for i, text in enumerate(self.paragraphs):
            states = ("editable", "focused") if text == self.focus else ("editable",)
            shown.append(
                self._at("paragraph", "", 60, y + 30 + i * 26, 480, 20, text, states, text)
            )
        if self.cells is not None:
            for row in range(12):
                for column in range(6):
                    name = "ABCDEF"[column] + str(row + 1)
                    states = ("focused", "selected") if name == self.focus else ()
                    x, top = 30 + column * self._column, y + 50 + row * self._row
                    value = self.cells.get(name, "")
                    shown.append(
                        self._at("table cell", name, x, top, self._column, self._row, value, states)
                    )
        return shown

    def _dialog_elements(self, dialog: Dialog) -> list[Element]:
        states = ("editable", "focused")
        role = self._chance.choice(("dialog", "dialog", "alert", "frame"))
        shown = [
            self._at(role, dialog.title, 120, 120, 320, 160),
            self._at("label", dialog.label, 150, 140, 180, 17),
            self._at("text", dialog.label, 150, 164, 230, 34, dialog.value, states),
        ]
        for i, name in enumerate(dialog.buttons):
            shown.append(self._at("push button", name, 180 + i * 92, 230, 86, 34))
        return shown
