"""The keyboard: any Unicode text, exactly, whatever the keymap says.

Keysyms of the layout are typed by their own key. All others go to the keycodes that the layout
leaves unmapped: 19 codes of two levels each make 38 slots. A slot is mapped before it is used and
mapped anew only after what was typed with it has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from Xlib import XK, X
from Xlib.ext import xtest

from envs_node.actors.desktop.errors import ActionRefusedError

# After a change of the mapping clients must hear MappingNotify before the key; the protocol has
# no answer that says they did. 30 ms were enough in GTK, LibreOffice, Chromium and xterm.
_MAPPING_S = 0.03

_NAMES = {
    "ctrl": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "super": "Super_L", "enter": "Return",
    "tab": "Tab", "esc": "Escape", "escape": "Escape", "backspace": "BackSpace", "space": "space",
    "delete": "Delete", "insert": "Insert", "home": "Home", "end": "End", "pageup": "Prior",
    "pagedown": "Next", "up": "Up", "down": "Down", "left": "Left", "right": "Right",
    "menu": "Menu", "capslock": "Caps_Lock", "printscreen": "Print", "pause": "Pause",
    "numlock": "Num_Lock", "scrolllock": "Scroll_Lock", "return": "Return", "del": "Delete",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_CONTROLS = {"\n": 0xFF0D, "\t": 0xFF09}


def keysym_of_character(character: str) -> int:
    """The X11 keysym that a character is typed with.

    Raises:
        ActionRefusedError: it is a control character that no key types.
    """
    if character in _CONTROLS:
        return _CONTROLS[character]
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        raise ActionRefusedError(f"{character!r} cannot be typed: it is a control character")
    return code if code < 0x100 else 0x01000000 | code


def keysym_of_name(name: str) -> int:
    """The keysym of a canonical key name, or of a single character.

    Raises:
        ActionRefusedError: there is no such key.
    """
    if len(name) == 1:
        return keysym_of_character(name)
    if name not in _NAMES:
        raise ActionRefusedError(f"no key is named {name!r}; known are {', '.join(_NAMES)}")
    return int(XK.string_to_keysym(_NAMES[name]))


class Keyboard:
    """The keys of one desktop. Call `release` when an action failed half way."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._held: list[int] = []
        self._fixed: dict[int, tuple[int, int]] = {}
        self._slots: dict[tuple[int, int], int] = {}
        """Slot to its keysym, least recently used first; 0 for none."""
        first = display.display.info.min_keycode
        rows = display.get_keyboard_mapping(first, display.display.info.max_keycode - first + 1)
        modifiers = {code for row in display.get_modifier_mapping() for code in row}
        for code, row in enumerate(rows, first):
            if not any(row) and code not in modifiers:
                self._slots.update({(code, 0): 0, (code, 1): 0})
            for level, keysym in enumerate(row[:2]):
                if keysym:
                    self._fixed.setdefault(keysym, (code, level))
        self._shift = self._fixed[int(XK.XK_Shift_L)][0]

    def type(self, text: str, wait_drained: Callable[[], object]) -> None:
        """Type a text.

        Args:
            wait_drained: returns once what was typed so far has been taken in.
        """
        keysyms = [keysym_of_character(character) for character in text.replace("\r\n", "\n")]
        for number, chunk in enumerate(self._chunks(keysyms)):
            if number:
                wait_drained()
            placed = self._place(chunk)
            for keysym in chunk:
                code, level = placed[keysym]
                if level:
                    self.press(self._shift)
                self.press(code)
                self.release()
            self._display.sync()

    def hold(self, names: Iterable[str]) -> None:
        """Press keys one after the other and keep them down until `release`."""
        keysyms = [keysym_of_name(name) for name in names]
        placed = self._place(keysyms)
        for keysym in keysyms:
            code, level = placed[keysym]
            if level and self._shift not in self._held:
                self.press(self._shift)
            self.press(code)

    def press(self, code: int) -> None:
        """Press a key by its code."""
        xtest.fake_input(self._display, X.KeyPress, code)
        self._held.append(code)

    def release(self) -> None:
        """Let go of every key that is down, last first."""
        while self._held:
            xtest.fake_input(self._display, X.KeyRelease, self._held.pop())

    def _chunks(self, keysyms: list[int]) -> Iterable[list[int]]:
        """Split so that no chunk needs more slots than there are."""
        chunk: list[int] = []
        foreign: set[int] = set()
        for keysym in keysyms:
            if keysym not in self._fixed and keysym not in foreign:
                if len(foreign) == len(self._slots):
                    yield chunk
                    chunk, foreign = [], set()
                foreign.add(keysym)
            chunk.append(keysym)
        if chunk:
            yield chunk

    def _place(self, keysyms: list[int]) -> dict[int, tuple[int, int]]:
        """Give every keysym a key, mapping slots anew where needed."""
        wanted = dict.fromkeys(keysym for keysym in keysyms if keysym not in self._fixed)
        placed = {keysym: slot for slot, keysym in self._slots.items() if keysym in wanted}
        free = [slot for slot, keysym in self._slots.items() if keysym not in wanted]
        changed: set[int] = set()
        for keysym in wanted:
            if keysym not in placed:
                placed[keysym] = free.pop(0)
                changed.add(placed[keysym][0])
            slot = placed[keysym]
            self._slots.pop(slot)
            self._slots[slot] = keysym  # now the most recently used
        for code in changed:
            lower, upper = self._slots[code, 0], self._slots[code, 1]
            self._display.change_keyboard_mapping(code, [(lower, upper, lower, upper)])
        if changed:
            self._display.sync()
            time.sleep(_MAPPING_S)
        return {**self._fixed, **placed}
