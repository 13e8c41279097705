"""What OSWorld's tasks and agents use of PyAutoGUI: the pointer and the keyboard, by XTEST.

Names, arguments and pauses are PyAutoGUI's own. What is not here (pictures, message boxes, a search
of the screen) says so by name. Unlike there, any character can be written.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from envs_node.actors.desktop.guest.xinput import XInput, keysym_of_character

FAILSAFE = True
PAUSE = 0.1
"""Seconds after each call that makes input."""
MINIMUM_DURATION = 0.1
_STEP_S = 0.01
_BUTTONS = {"left": 1, "primary": 1, "middle": 2, "right": 3, "secondary": 3}
_KEYSYMS = {
    "enter": 0xFF0D, "return": 0xFF0D, "\n": 0xFF0D, "\r": 0xFF0D, "tab": 0xFF09, "\t": 0xFF09,
    "esc": 0xFF1B, "escape": 0xFF1B, "backspace": 0xFF08, "\b": 0xFF08, "space": 0x20,
    "del": 0xFFFF, "delete": 0xFFFF, "insert": 0xFF63, "home": 0xFF50, "end": 0xFF57,
    "pageup": 0xFF55, "pgup": 0xFF55, "pagedown": 0xFF56, "pgdn": 0xFF56, "up": 0xFF52,
    "down": 0xFF54, "left": 0xFF51, "right": 0xFF53, "shift": 0xFFE1, "shiftleft": 0xFFE1,
    "shiftright": 0xFFE2, "ctrl": 0xFFE3, "ctrlleft": 0xFFE3, "ctrlright": 0xFFE4, "alt": 0xFFE9,
    "altleft": 0xFFE9, "altright": 0xFFEA, "option": 0xFFE9, "win": 0xFFEB, "winleft": 0xFFEB,
    "winright": 0xFFEC, "command": 0xFFEB, "super": 0xFFEB, "capslock": 0xFFE5, "numlock": 0xFF7F,
    "scrolllock": 0xFF14, "pause": 0xFF13, "printscreen": 0xFF61, "prntscrn": 0xFF61,
    "prtsc": 0xFF61, "prtscr": 0xFF61, "print": 0xFF61, "apps": 0xFF67, "menu": 0xFF67,
    "help": 0xFF6A, "clear": 0xFF0B, "multiply": 0xFFAA, "add": 0xFFAB, "separator": 0xFFAC,
    "subtract": 0xFFAD, "decimal": 0xFFAE, "divide": 0xFFAF, "volumedown": 0x1008FF11,
    "volumemute": 0x1008FF12, "volumeup": 0x1008FF13,
    **{f"f{number}": 0xFFBD + number for number in range(1, 25)},
    **{f"num{number}": 0xFFB0 + number for number in range(10)},
}  # fmt: skip


class FailSafeException(Exception):
    """The pointer is in the corner at 0, 0, which is how a user stops a script."""


class Point(NamedTuple):
    """A place on the screen."""

    x: int
    y: int


class Size(NamedTuple):
    """Of the screen, in pixels."""

    width: int
    height: int


@functools.cache
def _server() -> XInput:
    number = os.environ.get("DISPLAY", ":0").partition(":")[2].partition(".")[0]
    return XInput(f"/tmp/.X11-unix/X{number}")


def _keysym(key: str) -> int | None:
    """The keysym of a key's name; None if there is no such key."""
    if len(key) != 1:
        key = key.lower()
    if key in _KEYSYMS:
        return _KEYSYMS[key]
    if len(key) == 1 and key.isprintable():
        return keysym_of_character(key)
    return None


def _point(x: Any, y: Any) -> tuple[int, int]:
    """Where a call means: two numbers, a pair of them, or where the pointer is."""
    if isinstance(x, str):
        raise NotImplementedError("this desktop's pyautogui does not look for pictures")
    if isinstance(x, (tuple, list)):
        x, y = x[0], x[1]
    here = _server().position()
    return (here[0] if x is None else round(x)), (here[1] if y is None else round(y))


def _button(button: str | int) -> int:
    if isinstance(button, int) and 1 <= button <= 7:
        return button
    if str(button).lower() not in _BUTTONS:
        raise ValueError(f"there is no button {button!r}")
    return _BUTTONS[str(button).lower()]


def _go(x: int, y: int, duration: float) -> None:
    """Move the pointer, in steps where that shall take time."""
    steps = max(1, int(duration / _STEP_S)) if duration > MINIMUM_DURATION else 1
    x0, y0 = _server().position()
    for step in range(1, steps + 1):
        _server().move(x0 + (x - x0) * step // steps, y0 + (y - y0) * step // steps)
        if steps > 1:
            _server().sync()
            time.sleep(duration / steps)


class _Pointer:
    """What PyAutoGUI does with the pointer."""

    def moveTo(self, x: Any = None, y: Any = None, duration: float = 0.0, *_: Any) -> None:
        _go(*_point(x, y), duration)

    def move(self, xOffset: Any = 0, yOffset: Any = 0, duration: float = 0.0, *_: Any) -> None:
        if isinstance(xOffset, (tuple, list)):
            xOffset, yOffset = xOffset
        x, y = _server().position()
        _go(x + round(xOffset or 0), y + round(yOffset or 0), duration)

    moveRel = move

    def mouseDown(self, x: Any = None, y: Any = None, button: str | int = "left", *_: Any) -> None:
        _server().move(*_point(x, y))
        _server().press_button(_button(button))

    def mouseUp(self, x: Any = None, y: Any = None, button: str | int = "left", *_: Any) -> None:
        _server().move(*_point(x, y))
        _server().release_button(_button(button))

    def click(
        self, x: Any = None, y: Any = None, clicks: int = 1, interval: float = 0.0,
        button: str | int = "left", duration: float = 0.0, *_: Any,
    ) -> None:  # fmt: skip
        _go(*_point(x, y), duration)
        for number in range(clicks):
            if number and interval:
                time.sleep(interval)
            _server().press_button(_button(button))
            _server().release_button(_button(button))

    def leftClick(self, x: Any = None, y: Any = None, *rest: Any) -> None:
        self.click(x, y, 1, 0.0, "left", *rest)

    def rightClick(self, x: Any = None, y: Any = None, *rest: Any) -> None:
        self.click(x, y, 1, 0.0, "right", *rest)

    def middleClick(self, x: Any = None, y: Any = None, *rest: Any) -> None:
        self.click(x, y, 1, 0.0, "middle", *rest)

    def doubleClick(
        self, x: Any = None, y: Any = None, interval: float = 0.0, button: str | int = "left",
        duration: float = 0.0, *_: Any,
    ) -> None:  # fmt: skip
        self.click(x, y, 2, interval, button, duration)

    def tripleClick(
        self, x: Any = None, y: Any = None, interval: float = 0.0, button: str | int = "left",
        duration: float = 0.0, *_: Any,
    ) -> None:  # fmt: skip
        self.click(x, y, 3, interval, button, duration)

    def dragTo(
        self, x: Any = None, y: Any = None, duration: float = 0.0, tween: Any = None,
        button: str | int = "left", *_: Any, mouseDownUp: bool = True,
    ) -> None:  # fmt: skip
        end = _point(x, y)
        if mouseDownUp:
            _server().press_button(_button(button))
        _go(*end, duration)
        if mouseDownUp:
            _server().release_button(_button(button))

    def drag(
        self, xOffset: Any = 0, yOffset: Any = 0, duration: float = 0.0, *rest: Any, **named: Any
    ) -> None:
        if isinstance(xOffset, (tuple, list)):
            xOffset, yOffset = xOffset
        x, y = _server().position()
        self.dragTo(x + round(xOffset or 0), y + round(yOffset or 0), duration, *rest, **named)

    dragRel = drag

    def scroll(self, clicks: float, x: Any = None, y: Any = None, *_: Any) -> None:
        _server().move(*_point(x, y))
        self._turn(4 if clicks > 0 else 5, abs(round(clicks)))

    vscroll = scroll

    def hscroll(self, clicks: float, x: Any = None, y: Any = None, *_: Any) -> None:
        _server().move(*_point(x, y))
        self._turn(7 if clicks > 0 else 6, abs(round(clicks)))

    def _turn(self, button: int, clicks: int) -> None:
        for _ in range(clicks):
            _server().press_button(button)
            _server().release_button(button)


class _Keyboard:
    """What PyAutoGUI does with the keyboard."""

    def keyDown(self, key: str, *_: Any) -> None:
        keysym = _keysym(key)
        if keysym is not None:
            _server().press_key(keysym)
        else:  # PyAutoGUI passes over it; so do we, aloud
            sys.stderr.write(f"pyautogui: there is no key {key!r}\n")

    def keyUp(self, key: str, *_: Any) -> None:
        keysym = _keysym(key)
        if keysym is not None:
            _server().release_key(keysym)

    def press(
        self, keys: str | Iterable[str], presses: int = 1, interval: float = 0.0, *_: Any
    ) -> None:
        names = [keys] if isinstance(keys, str) else list(keys)
        for _round in range(presses):
            for name in names:
                self.keyDown(name)
                self.keyUp(name)
            time.sleep(interval)

    def write(self, message: str | Iterable[str], interval: float = 0.0, *_: Any) -> None:
        names = list(message)
        keysyms = [keysym for keysym in map(_keysym, names) if keysym is not None]
        if len(keysyms) < len(names):
            sys.stderr.write(f"pyautogui: there is no key for a part of {names!r:.200}\n")
        for chunk in _server().chunks(keysyms):
            _server().place(chunk)
            for keysym in chunk:
                _server().press_key(keysym)
                _server().release_key(keysym)
                time.sleep(interval)

    typewrite = write

    def hotkey(self, *keys: Any, interval: float = 0.0) -> None:
        names = keys[0] if len(keys) == 1 and isinstance(keys[0], (tuple, list)) else keys
        for name in names:
            self.keyDown(name)
            time.sleep(interval)
        for name in reversed(names):
            self.keyUp(name)
            time.sleep(interval)


class _Questions:
    """What makes no input."""

    def position(self, x: Any = None, y: Any = None) -> Point:
        here = _server().position()
        return Point(here[0] if x is None else int(x), here[1] if y is None else int(y))

    def size(self) -> Size:
        return Size(_server().width, _server().height)

    def onScreen(self, x: Any, y: Any = None) -> bool:
        left, top = map(int, x if y is None else (x, y))
        width, height = self.size()
        return 0 <= left < width and 0 <= top < height

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """A call as PyAutoGUI makes it: stopped by the corner, and with a pause after it."""

    @functools.wraps(method)
    def call(
        *words: Any, _pause: bool = True, logScreenshot: Any = None, tween: Any = None, **named: Any
    ) -> None:
        if FAILSAFE and _server().position() == (0, 0):
            raise FailSafeException("the pointer is at 0, 0")
        method(*words, **named)
        _server().sync()
        if _pause and PAUSE:
            time.sleep(PAUSE)

    return call


_ACTS = {
    name: _guarded(getattr(owner, name))
    for owner in (_Pointer(), _Keyboard()) for name in dir(owner) if not name.startswith("_")
}  # fmt: skip
_ASKS = {name: getattr(_Questions(), name) for name in dir(_Questions) if not name.startswith("_")}
__all__ = [
    "FAILSAFE", "MINIMUM_DURATION", "PAUSE", "FailSafeException", "Point", "Size",
    *_ACTS, *_ASKS,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ACTS:
        return _ACTS[name]
    if name in _ASKS:
        return _ASKS[name]
    raise AttributeError(f"pyautogui.{name} is not on this desktop")
