"""Input: performs canonical actions on a desktop with the XTEST extension, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from envs_node.actors.desktop.delivery import Delivery
from envs_node.actors.desktop.devices import Devices
from envs_node.actors.desktop.errors import ActionRefusedError, DesktopLostError
from envs_node.actors.desktop.keyboard import Keyboard, keysyms_of_chord
from envs_node.actors.desktop.shape import check_shape, points_of
from envs_node.actors.desktop.xserver import LOST, XConnection
from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Fail,
    Finish,
    Key,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    Type,
    Wait,
)

_UP, _DOWN, _LEFT, _RIGHT = 4, 5, 6, 7
_DELIVERY_S = 1.0
"""So long an action waits for the application to take it in. One that is busy takes longer."""
_CLICKS_APART_S = 0.9
"""Longer than any toolkit takes two clicks for one double click (`gtk-double-click-time` and kin).
A policy thinks longer than that between two clicks, and a replay does not: it must wait."""
_NEAR_PX = 16
_MOTION_S, _DRAG_S = 0.3, 3.0
"""What an application may take for one motion of a drag, and for all but those to its corners."""
_DRAG_PARTS = 8
"""Toolkits start a drag only after several motions beyond their threshold."""


class Input:
    """The pointer and the keyboard of one desktop.

    Args:
        path: where this host sees a path of the desktop.
    """

    def __init__(
        self, connection: XConnection, width: int, height: int, path: Callable[[str], Path]
    ) -> None:
        self._display = connection.display
        self._width, self._height = width, height
        self._devices = Devices(self._display)
        self._delivery = Delivery(self._display, path)
        self._keyboard = Keyboard(self._display, self._devices, self._delivery)
        self._clicked_s, self._clicked_at = 0.0, (-_NEAR_PX, -_NEAR_PX)

    def wake(self) -> None:
        """Use each device once: the first event makes the server switch its keymap."""
        self._keyboard.press(("shift",))
        self._devices.release()
        self.park()

    def park(self) -> None:
        """Put the pointer into the last corner, where nothing reacts to it."""
        self._devices.move(self._width - 1, self._height - 1)
        self._display.sync()

    def perform(self, action: Action) -> None:
        """Perform an action; returns when the application has taken it in, or is busy.

        Before and after, nothing is down but what `MouseDown` and `KeyDown` keep.

        Raises:
            ActionRefusedError: no such key or button, a point beyond the screen, or a limit;
                nothing was done.
            DesktopLostError: the X server is gone, a key or a button cannot be let go, or the
                application did not read what it was typed in time.
        """
        self._check(action)
        try:
            self._devices.settle()
            try:
                self._perform(action)
            finally:
                self._devices.settle()
                if isinstance(action, Click | MouseDown | MouseUp | Drag):
                    self._clicked_s, self._clicked_at = time.monotonic(), points_of(action)[-1]
            self._delivery.is_done(_DELIVERY_S)
        except LOST as error:
            raise DesktopLostError(f"the X server is gone: {error}") from error

    def _check(self, action: Action) -> None:
        check_shape(action, self._width, self._height)
        match action:
            case Click(button=button) | Drag(button=button) | MouseDown(button=button):
                if self._devices.keeps(button=button):
                    raise ActionRefusedError(f"button {button} is down: let it go first")
            case MouseUp(button=button):
                if not self._devices.keeps(button=button):
                    raise ActionRefusedError(f"button {button} is not down")
            case KeyDown(key=key) | KeyUp(key=key):
                is_kept = self._devices.keeps(key=self._keyboard.code_of(key))
                if is_kept != isinstance(action, KeyUp):
                    raise ActionRefusedError(f"key {key} is {'' if is_kept else 'not '}down")
            case _:
                pass
        match action:
            case (
                Click(keys=keys)
                | Move(keys=keys)
                | Drag(keys=keys)
                | Scroll(keys=keys)
                | Key(keys=keys)
            ):
                keysyms_of_chord(keys)
            case _:
                pass

    def _perform(self, action: Action) -> None:
        if isinstance(action, Click | MouseDown | Drag):
            self._part_clicks(*points_of(action)[0])
        match action:
            case Click(x=x, y=y) | Scroll(x=x, y=y):
                self._devices.move(x, y)
                self._keyboard.press(action.keys)
                for button in _presses_of(action):
                    self._devices.click(button)
            case Move(x=x, y=y):
                self._keyboard.press(action.keys)
                self._devices.move(x, y)
            case MouseDown(x=x, y=y, button=button):
                self._devices.move(x, y)
                self._devices.press_button(button)
                self._devices.keep(button=button)
            case MouseUp(x=x, y=y, button=button):
                self._devices.move(x, y)
                self._devices.drop(button=button)
            case Drag():
                self._drag(action)
            case Type():
                self._keyboard.type(action.text)
            case Key():
                for _ in range(action.count):
                    self._keyboard.press(action.keys)
                    if len(action.keys) > 1:
                        self._delivery.wait_manager()
                    if action.hold_ms:
                        self._display.sync()
                        time.sleep(action.hold_ms / 1000)
                    self._devices.release()
            case KeyDown(key=key):
                (code,) = self._keyboard.press((key,))
                self._devices.keep(key=code)
            case KeyUp(key=key):
                self._devices.drop(key=self._keyboard.code_of(key))
            case Wait():
                time.sleep(action.wait_ms / 1000)
            case Finish() | Fail():
                self._devices.drop_all()

    def _part_clicks(self, x: int, y: int) -> None:
        """Wait until a press here can no longer be taken for one click with the last."""
        left, top = self._clicked_at
        if abs(x - left) < _NEAR_PX and abs(y - top) < _NEAR_PX:
            time.sleep(max(0.0, self._clicked_s + _CLICKS_APART_S - time.monotonic()))

    def _drag(self, action: Drag) -> None:
        start = action.path[0]
        self._devices.move(start.x, start.y)
        self._keyboard.press(action.keys)
        self._devices.press_button(action.button)
        hurry_s = time.monotonic() + _DRAG_S
        for before, after in zip(action.path, action.path[1:], strict=False):
            for part in range(1, _DRAG_PARTS + 1):
                x = before.x + (after.x - before.x) * part // _DRAG_PARTS
                y = before.y + (after.y - before.y) * part // _DRAG_PARTS
                self._devices.move(x, y)
                self._display.sync()
                # Who is busy would ask where the pointer is by then, and draw a line from there.
                if part == _DRAG_PARTS:
                    self._delivery.is_done(_DELIVERY_S)
                elif time.monotonic() < hurry_s:
                    self._delivery.is_done(_MOTION_S)


def _presses_of(action: Click | Scroll) -> list[int]:
    """The buttons that are pressed one after the other. A notch of the wheel is one."""
    if isinstance(action, Click):
        return [action.button] * action.count
    down = [_DOWN if action.dy > 0 else _UP] * abs(action.dy)
    return down + [_RIGHT if action.dx > 0 else _LEFT] * abs(action.dx)
