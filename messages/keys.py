"""The keys of a keyboard: one name for each, and every spelling of it that models use."""

from __future__ import annotations

import re

from envs_node.messages.base import EnvsError

KEYSYMS = {
    "ctrl": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "super": "Super_L",
    "ctrl_r": "Control_R", "shift_r": "Shift_R", "alt_r": "Alt_R", "super_r": "Super_R",
    "enter": "Return", "tab": "Tab", "esc": "Escape", "backspace": "BackSpace", "space": "space",
    "delete": "Delete", "insert": "Insert", "home": "Home", "end": "End", "pageup": "Prior",
    "pagedown": "Next", "up": "Up", "down": "Down", "left": "Left", "right": "Right",
    "menu": "Menu", "capslock": "Caps_Lock", "printscreen": "Print", "pause": "Pause",
    "numlock": "Num_Lock", "scrolllock": "Scroll_Lock",
    "kp_enter": "KP_Enter", "kp_add": "KP_Add", "kp_subtract": "KP_Subtract",
    "kp_multiply": "KP_Multiply", "kp_divide": "KP_Divide", "kp_decimal": "KP_Decimal",
    **{f"kp_{digit}": f"KP_{digit}" for digit in range(10)},
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
"""Canonical name to the name of its X11 keysym. A character names itself."""

_SPELLINGS = {
    "return": "enter", "linefeed": "enter", "escape": "esc", "del": "delete", "ins": "insert",
    "bksp": "backspace", "back": "backspace", "spacebar": "space", "prior": "pageup",
    "pgup": "pageup", "next": "pagedown", "pgdn": "pagedown", "pgdown": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right",
    "uparrow": "up", "downarrow": "down", "leftarrow": "left", "rightarrow": "right",
    "control": "ctrl", "ctl": "ctrl", "ctrll": "ctrl", "controll": "ctrl", "ctrlleft": "ctrl",
    "controlleft": "ctrl", "ctrlright": "ctrl_r", "controlr": "ctrl_r", "controlright": "ctrl_r",
    "shiftl": "shift", "shiftleft": "shift", "shiftright": "shift_r", "altl": "alt",
    "altleft": "alt", "option": "alt", "opt": "alt", "altright": "alt_r", "optionright": "alt_r",
    "altgr": "alt_r", "superl": "super", "superleft": "super", "superright": "super_r",
    "win": "super", "winleft": "super", "winright": "super_r", "windows": "super",
    "meta": "super", "metal": "super", "metaleft": "super", "metaright": "super_r",
    "cmd": "super", "command": "super", "apps": "menu", "contextmenu": "menu", "caps": "capslock",
    "print": "printscreen", "prtsc": "printscreen", "prtscr": "printscreen",
    "prntscrn": "printscreen", "break": "pause", "num": "numlock", "numenter": "kp_enter",
    "numpadenter": "kp_enter", "plus": "+", "minus": "-", "hyphen": "-", "dash": "-",
    "comma": ",", "period": ".", "dot": ".", "slash": "/", "backslash": "\\", "equal": "=",
    "equals": "=", "semicolon": ";", "colon": ":", "apostrophe": "'", "quote": "'",
    "quotedbl": '"', "grave": "`", "backquote": "`", "backtick": "`", "bracketleft": "[",
    "bracketright": "]", "braceleft": "{", "braceright": "}", "parenleft": "(",
    "parenright": ")", "underscore": "_", "tilde": "~", "asciitilde": "~", "exclam": "!",
    "at": "@", "numbersign": "#", "hash": "#", "dollar": "$", "percent": "%", "ampersand": "&",
    "asterisk": "*", "bar": "|", "pipe": "|", "less": "<", "greater": ">", "question": "?",
    "asciicircum": "^",
}  # fmt: skip
_SQUEEZED = {name.replace("_", ""): name for name in KEYSYMS}
_CHARACTERS = {" ": "space", "\n": "enter", "\r": "enter", "\t": "tab", "\x1b": "esc"}
_COMMANDS = frozenset({"ctrl", "alt", "super", "ctrl_r", "alt_r", "super_r"})
_TOKEN = {"+": re.compile(r"[^+\s]+|\+"), "-": re.compile(r"[^-]+|-")}


class UnknownKeyError(EnvsError):
    """A policy named a key that no keyboard has."""

    def __init__(self, spelling: str) -> None:
        super().__init__(f"no key is named {spelling[:40]!r}; known are {', '.join(KEYSYMS)}")
        self.spelling = spelling


def canonical_key(spelling: str) -> str:
    """The name of a key, whichever way it is spelled: `PgDn`, `Page_Down` and `Next` are one key.

    Raises:
        UnknownKeyError: there is no such key.
    """
    if len(spelling) == 1:
        return _CHARACTERS.get(spelling, spelling)
    squeezed = re.sub(r"[\s_-]", "", spelling.lower()).removeprefix("xk")
    name = _SQUEEZED.get(squeezed) or _SPELLINGS.get(squeezed)
    if name is None:
        raise UnknownKeyError(spelling)
    return name


def canonical_chord(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The names of keys that are pressed together.

    Beside `ctrl`, `alt` or `super` the case of a letter says nothing: the key is meant.

    Raises:
        UnknownKeyError: one of them is no key.
    """
    names = tuple(canonical_key(key) for key in keys)
    if _COMMANDS.isdisjoint(names):
        return names
    return tuple(name.lower() if len(name) == 1 and name.isascii() else name for name in names)


def parse_chord(text: str) -> tuple[str, ...]:
    """Read a chord as models write it: `ctrl+c`, `ctrl c`, `CTRL-C`, `ctrl++`, `Page Down`, `+`.

    Raises:
        UnknownKeyError: a part of it is no key, or it is empty.
    """
    try:
        return (canonical_key(text if len(text) == 1 else text.strip()),)
    except UnknownKeyError:
        return canonical_chord(tuple(_split(text.strip(), "+")))


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark, which is a key itself where a key must stand."""
    tokens = _TOKEN[mark].findall(text)
    keys: list[str] = []
    is_key_due = True
    while tokens:
        token = tokens.pop(0)
        if token == mark and not is_key_due and tokens:
            is_key_due = True
            continue
        keys += _keys_of(token, tokens, mark)
        is_key_due = False
    if not keys:
        raise UnknownKeyError(text)
    return keys


def _keys_of(token: str, following: list[str], mark: str) -> list[str]:
    try:
        return [canonical_key(token)]
    except UnknownKeyError:
        if following and following[0] != mark and f"{token}{following[0]}".lower() in _known():
            return [canonical_key(token + following.pop(0))]
        if mark == "+" and "-" in token:
            return _split(token, "-")
        raise


def _known() -> frozenset[str]:
    return frozenset({*_SQUEEZED, *_SPELLINGS})
