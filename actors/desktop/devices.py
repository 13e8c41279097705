"""The XTEST keyboard and pointer: what is down, and that nothing else stays down."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from Xlib import X
from Xlib.ext import xtest

from envs_node.actors.desktop.errors import DesktopLostError

_BUTTON_BITS = {button: X.Button1Mask << (button - 1) for button in range(1, 6)}
"""The server says no more than these of what is down."""
_GROUP_SHIFT = 13
_THAW_S = 5.0
"""A click may freeze the pointer until the window manager has decided whom to give it to."""
_POLL_S = 0.002


class DeviceState(msgspec.Struct, frozen=True):
    """What the server says of its devices at one moment."""

    keys: frozenset[int]
    """Codes of the keys that are down."""
    buttons: frozenset[int]
    x: int
    y: int
    is_caps_locked: bool
    group: int
    """Which of its layouts the keyboard is in, from 0."""


class Devices:
    """One keyboard and one pointer.

    What an action presses is let go by `release`, unless it was to be kept. What is down already
    was kept by the desktop that this one is a copy of.
    """

    def __init__(self, display: Any) -> None:
        self._display = display
        self._root = display.screen().root
        self._pressed: list[tuple[int, int]] = []
        """What this action has pressed, as the event that lets go of it."""
        state = self.state()
        self._kept = {(X.KeyRelease, code) for code in state.keys}
        self._kept |= {(X.ButtonRelease, button) for button in state.buttons}

    def state(self) -> DeviceState:
        """Ask the server."""
        rows = self._display.query_keymap()
        pointer = self._root.query_pointer()
        bits = range(8)
        return DeviceState(
            frozenset(
                8 * row + bit for row, byte in enumerate(rows) for bit in bits if byte >> bit & 1
            ),
            frozenset(button for button, bit in _BUTTON_BITS.items() if pointer.mask & bit),
            pointer.root_x,
            pointer.root_y,
            bool(pointer.mask & X.LockMask),
            pointer.mask >> _GROUP_SHIFT & 3,
        )

    def move(self, x: int, y: int) -> None:
        """Move the pointer."""
        xtest.fake_input(self._display, X.MotionNotify, x=x, y=y)

    def press_key(self, code: int) -> None:
        """Press a key."""
        xtest.fake_input(self._display, X.KeyPress, code)
        self._pressed.append((X.KeyRelease, code))

    def wait_dealt(self, code: int) -> None:
        """Return once the server has dealt out all input up to the press of this key.

        While a program decides whom a key or a click belongs to, as window managers do, the server
        keeps later input back, and answers requests all the same.

        Raises:
            DesktopLostError: it keeps it back for good.
        """
        deadline = time.monotonic() + _THAW_S
        while not self._display.query_keymap()[code // 8] >> code % 8 & 1:
            if time.monotonic() > deadline:
                raise DesktopLostError(f"the keyboard is held back for more than {_THAW_S:g} s")
            time.sleep(_POLL_S)

    def press_button(self, button: int) -> None:
        """Press a button."""
        xtest.fake_input(self._display, X.ButtonPress, button)
        self._pressed.append((X.ButtonRelease, button))

    def click(self, button: int) -> None:
        """Press a button and let it go."""
        self.press_button(button)
        xtest.fake_input(self._display, *self._pressed.pop())

    def release(self) -> None:
        """Let go of what this action has pressed, last first."""
        while self._pressed:
            xtest.fake_input(self._display, *self._pressed.pop())

    def keep(self, *, key: int = 0, button: int = 0) -> None:
        """What this action has pressed stays down, until it is dropped."""
        event = _let_go(key, button)
        self._pressed.remove(event)
        self._kept.add(event)

    def keeps(self, *, key: int = 0, button: int = 0) -> bool:
        """Whether a key or a button is kept down."""
        return _let_go(key, button) in self._kept

    def drop(self, *, key: int = 0, button: int = 0) -> None:
        """Let go of a key or a button that was kept."""
        event = _let_go(key, button)
        self._kept.discard(event)
        xtest.fake_input(self._display, *event)

    def drop_all(self) -> None:
        """Let go of everything that was kept."""
        for event in sorted(self._kept):
            xtest.fake_input(self._display, *event)
        self._kept.clear()

    def settle(self) -> DeviceState:
        """Make sure that nothing is down but what is kept, and forget what is no longer down.

        Raises:
            DesktopLostError: a key or a button stays down: the next action would be another.
        """
        self.release()
        state = self.state()
        stray = self._stray(state)
        for event in sorted(stray):
            xtest.fake_input(self._display, *event)
        deadline = time.monotonic() + _THAW_S
        while stray:
            if time.monotonic() > deadline:
                kinds = {X.KeyRelease: "key", X.ButtonRelease: "button"}
                names = ", ".join(f"{kinds[kind]} {number}" for kind, number in sorted(stray))
                raise DesktopLostError(f"{names} stays down though it was let go")
            time.sleep(_POLL_S)
            state = self.state()
            stray = self._stray(state)
        self._kept -= {
            (kind, number)
            for kind, number in self._kept
            if (kind == X.KeyRelease and number not in state.keys)
            or (kind == X.ButtonRelease and number in _BUTTON_BITS and number not in state.buttons)
        }
        return state

    def _stray(self, state: DeviceState) -> set[tuple[int, int]]:
        down = {(X.KeyRelease, code) for code in state.keys}
        down |= {(X.ButtonRelease, button) for button in state.buttons}
        return down - self._kept


def _let_go(key: int, button: int) -> tuple[int, int]:
    return (X.KeyRelease, key) if key else (X.ButtonRelease, button)
