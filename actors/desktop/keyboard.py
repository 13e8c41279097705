"""The keyboard: any Unicode text, exactly, whatever the layout says.

Keysyms of the layout are typed by their own key. All others go to the keycodes that the layout of a
fresh desktop leaves unmapped: 19 codes of two levels each make 38 slots. An application looks a key
up in the mapping that holds when it reads it. So a slot is mapped before it is used, and mapped
anew only when the application has taken in what was typed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from Xlib import XK, X, Xatom

from envs_node.actors.desktop.delivery import Delivery
from envs_node.actors.desktop.devices import Devices, DeviceState
from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.messages.keys import KEYSYMS, UnknownKeyError, canonical_chord

Place: TypeAlias = tuple[int, int]
"""A keycode, and whether Shift goes with it."""
_SPARE_CODES = "_ENVS_SPARE_KEYCODES"
"""Property of the root window: a copy of a desktop finds there which codes are its slots."""
_CODES_MAX, _WORD_BITS = 256, 32
_CHUNK = 500
"""So many characters are on their way at most, however late the application is."""
_CONTROLS = {"\n": 0xFF0D, "\t": 0xFF09}
_ASTRAL = 0x0100FFFF
"""Keysyms of characters beyond the Basic Multilingual Plane are above."""


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


def keysyms_of_chord(names: tuple[str, ...]) -> list[int]:
    """The keysyms of keys that are pressed together, by any of their names.

    Raises:
        ActionRefusedError: there is no such key.
    """
    try:
        keys = canonical_chord(names)
    except UnknownKeyError as error:
        raise ActionRefusedError(str(error)) from error
    return [
        int(XK.string_to_keysym(KEYSYMS[key])) if key in KEYSYMS else keysym_of_character(key)
        for key in keys
    ]


class Keyboard:
    """The keys of one desktop.

    Args:
        delivery: knows when the application has taken in what was typed.
    """

    def __init__(self, display: Any, devices: Devices, delivery: Delivery) -> None:
        self._display = display
        self._devices = devices
        self._delivery = delivery
        self._first = display.display.info.min_keycode
        self._rows: list[tuple[int, ...]] = []
        self._group = 0
        self._fixed: dict[int, Place] = {}
        self._slots: dict[Place, int] = {}
        """Slot to its keysym, least recently used first; 0 for none."""
        self._used: set[Place] = set()
        """Slots that were typed with since the application was last known to have read all."""
        self._read(devices.state(), self._spare_codes())

    def type(self, text: str) -> None:
        """Type a text.

        Raises:
            ActionRefusedError: a character of it is on no key; nothing was typed.
            DesktopLostError: the application does not take it in.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        keysyms = [keysym_of_character(character) for character in text]
        state = self._refresh()
        self._require_room(keysyms, 1)
        caps = self._fixed.get(int(XK.XK_Caps_Lock)) if state.is_caps_locked else None
        if caps:
            self._tap(caps)
        is_late = self._delivery.is_late()
        before = 0
        for number, chunk in enumerate(self._chunks(keysyms)):
            if number:
                self._wait_delivered()
            placed = self._place(chunk)
            for position, keysym in enumerate(chunk, 1):
                if is_late and _may_overtake(keysym, before):
                    self._delivery.wait_rested()
                self._tap(placed[keysym], is_last=position == len(chunk))
                before = keysym
        if caps:
            self._tap(caps)

    def press(self, names: tuple[str, ...]) -> list[int]:
        """Press keys one after the other; they stay down. Returns their codes.

        Raises:
            ActionRefusedError: there is no such key; nothing was pressed.
        """
        keysyms = keysyms_of_chord(names)
        state = self._refresh()
        self._require_room(keysyms, len(keysyms))
        placed = self._place(keysyms)
        down = set(state.keys)
        codes = []
        for keysym in keysyms:
            code, level = placed[keysym]
            for wanted in (self._shift, code) if level else (code,):
                if wanted not in down:
                    self._devices.press_key(wanted)
                    down.add(wanted)
            codes.append(code)
        return codes

    def code_of(self, name: str) -> int:
        """The code of the key that `press` would press.

        Raises:
            ActionRefusedError: there is no such key.
        """
        (keysym,) = keysyms_of_chord((name,))
        self._refresh()
        known = {keysym: place for place, keysym in self._slots.items()} | self._fixed
        return known.get(keysym, (0, 0))[0]

    def _wait_delivered(self) -> None:
        self._delivery.wait()
        self._used.clear()

    @property
    def _shift(self) -> int:
        return self._fixed[int(XK.XK_Shift_L)][0]

    def _tap(self, place: Place, *, is_last: bool = False) -> None:
        """Press and let go. Of what is typed in one go, the last key waits for the others."""
        code, level = place
        if level and not self._devices.keeps(key=self._shift):
            self._devices.press_key(self._shift)
        self._devices.press_key(code)
        if is_last:
            self._devices.wait_dealt(code)
        self._devices.release()

    def _spare_codes(self) -> list[int]:
        """The codes that the layout left unmapped when this desktop, or its origin, was fresh."""
        root, atom = self._display.screen().root, self._display.intern_atom(_SPARE_CODES)
        noted = root.get_property(atom, Xatom.CARDINAL, 0, _CODES_MAX)
        if noted is not None:  # any program may have written there since
            last = self._display.display.info.max_keycode
            told = noted.value if noted.format == _WORD_BITS else ()
            return [code for code in dict.fromkeys(told) if self._first <= code <= last]
        modifiers = {code for row in self._display.get_modifier_mapping() for code in row}
        rows = self._mapping()
        spare = [
            code for code, row in enumerate(rows, self._first)
            if not any(row) and code not in modifiers
        ]  # fmt: skip
        root.change_property(atom, Xatom.CARDINAL, 32, spare)
        return spare

    def _mapping(self) -> list[tuple[int, ...]]:
        last = self._display.display.info.max_keycode
        rows = self._display.get_keyboard_mapping(self._first, last - self._first + 1)
        return [tuple(row) for row in rows]

    def _refresh(self) -> DeviceState:
        """Read the mapping again: the guest may have chosen another layout meanwhile."""
        self._display.change_keyboard_control(auto_repeat_mode=X.AutoRepeatModeOff)
        state = self._devices.state()
        self._read(state, sorted({code for code, _ in self._slots}))
        return state

    def _read(self, state: DeviceState, spare: list[int]) -> None:
        """Learn which key has which keysym now, and what is in the slots."""
        rows = self._mapping()
        if rows == self._rows and state.group == self._group:
            return
        self._rows, self._group = rows, state.group
        is_first = not self._slots
        places = [(code, level) for code in spare for level in (0, 1)]
        for place in places if is_first else list(self._slots):
            code, level = place
            keysym = rows[code - self._first][level]
            is_ours = is_first or self._slots[place] == keysym
            self._slots[place] = keysym if is_ours else 0
        self._fixed = {}
        for code, row in enumerate(rows, self._first):
            if code not in spare:
                for level, keysym in enumerate(_levels(row, state.group)):
                    if keysym:
                        self._fixed.setdefault(keysym, (code, level))

    def _pinned(self) -> list[Place]:
        """Slots whose key is kept down: what holds it must be able to let go of it."""
        return [slot for slot in self._slots if self._devices.keeps(key=slot[0])]

    def _require_room(self, keysyms: list[int], wanted: int) -> None:
        """Refuse what needs Shift where the guest has taken it off the keyboard, or more slots.

        Raises:
            ActionRefusedError: those that need a slot find fewer than so many, or there is no
                Shift.
        """
        is_lacking = int(XK.XK_Shift_L) not in self._fixed
        if is_lacking and any(self._fixed.get(keysym, (0, 1))[1] for keysym in keysyms):
            raise ActionRefusedError("the keyboard has no Shift any more: its layout was changed")
        pinned = self._pinned()
        known = {self._slots[slot] for slot in pinned}
        foreign = {keysym for keysym in keysyms if keysym not in self._fixed} - known
        free = len(self._slots) - len(pinned)
        if min(len(foreign), wanted) > free:
            raise ActionRefusedError(f"{len(pinned) // 2} keys are held: no key is left to map")

    def _chunks(self, keysyms: list[int]) -> Iterator[list[int]]:
        """Split so that no chunk needs more slots than there are."""
        pinned = self._pinned()
        known = {self._slots[slot] for slot in pinned} | set(self._fixed)
        slots_max = len(self._slots) - len(pinned)
        chunk: list[int] = []
        foreign: set[int] = set()
        for keysym in keysyms:
            is_new = keysym not in known and keysym not in foreign
            if len(chunk) == _CHUNK or (is_new and len(foreign) == slots_max):
                yield chunk
                chunk, foreign = [], set()
            if keysym not in known:
                foreign.add(keysym)
            chunk.append(keysym)
        if chunk:
            yield chunk

    def _place(self, keysyms: Iterable[int]) -> dict[int, Place]:
        """Give every keysym a key, mapping slots anew where needed."""
        wanted = dict.fromkeys(keysym for keysym in keysyms if keysym not in self._fixed)
        placed = {keysym: slot for slot, keysym in self._slots.items() if keysym in wanted}
        pinned = self._pinned()
        free = [
            slot for slot, keysym in self._slots.items()
            if keysym not in wanted and slot not in pinned
        ]  # fmt: skip
        changed: set[int] = set()
        for keysym in wanted:
            if keysym not in placed:
                placed[keysym] = free.pop(0)
                changed.add(placed[keysym][0])
        if any(code in changed for code, _ in self._used):
            self._wait_delivered()
        for keysym, slot in placed.items():
            self._slots.pop(slot)
            self._slots[slot] = keysym  # now the most recently used
        for code in changed:
            lower, upper = self._slots[code, 0], self._slots[code, 1]
            # Alone, a capital letter would become the Shift level of its small one.
            lower, upper = lower or upper, upper or lower
            self._display.change_keyboard_mapping(code, [(lower, upper, lower, upper)])
        if changed:
            self._display.sync()
            self._wait_delivered()  # it has heard of the new mapping, which no answer would say
        self._used.update(placed.values())
        return {**self._fixed, **placed}


def _may_overtake(keysym: int, before: int) -> bool:
    """Whether an application that puts keys off might do this one before that before it."""
    is_astral, was_astral = keysym > _ASTRAL, before > _ASTRAL
    return before in _CONTROLS.values() or (is_astral and before != 0 and not was_astral)


def _levels(row: tuple[int, ...], group: int) -> tuple[int, ...]:
    """What a key gives without and with Shift, in the layout that is chosen.

    The core protocol tells two layouts apart; beyond, only the keys that all have in common count.
    """
    first, second = row[:2], row[2:4]
    if group == 0:
        return first
    if group == 1:
        return second if any(second) else first
    return first if first == second else ()
