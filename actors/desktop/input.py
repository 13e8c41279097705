"""Input: performs canonical actions on a desktop with the XTEST extension, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

from Xlib import X
from Xlib.ext import xtest

from envs_node.actors.desktop.errors import ActionRefusedError, DesktopLostError
from envs_node.actors.desktop.keyboard import Keyboard
from envs_node.actors.desktop.xserver import LOST, XConnection
from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Fail,
    Finish,
    Key,
    Move,
    Scroll,
    Type,
    Wait,
)

WAIT_MS_MAX = 30_000
_BUTTONS = (1, 2, 3)
_NOTCHES_MAX = 100
_UP, _DOWN, _LEFT, _RIGHT = 4, 5, 6, 7


class Input:
    """The pointer and the keyboard of one desktop."""

    def __init__(self, connection: XConnection, width: int, height: int) -> None:
        self._display = connection.display
        self._width, self._height = width, height
        self.keyboard = Keyboard(connection.display)

    def wake(self) -> None:
        """Use each device once: the first event makes the server switch its keymap."""
        self.keyboard.hold(["shift"])
        self.keyboard.release()
        self.park()

    def park(self) -> None:
        """Put the pointer into the last corner, where nothing reacts to it."""
        self._move(self._width - 1, self._height - 1)
        self._display.sync()

    def perform(self, action: Action, wait_drained: Callable[[], object]) -> None:
        """Perform an action; returns when the server has taken all of its events.

        Raises:
            ActionRefusedError: no such key or button, or a point beyond the screen.
            DesktopLostError: the X server is gone.
        """
        self._check(action)
        try:
            try:
                self._perform(action, wait_drained)
            finally:
                self.keyboard.release()
                self._display.sync()
        except LOST as error:
            raise DesktopLostError(f"the X server is gone: {error}") from error

    def _check(self, action: Action) -> None:
        match action:
            case Click(x=x, y=y) | Move(x=x, y=y) | Scroll(x=x, y=y):
                points = [(x, y)]
            case Drag(path=path):
                points = [(point.x, point.y) for point in path]
                if len(points) < 2:
                    raise ActionRefusedError(f"a drag needs two points or more, not {len(points)}")
            case _:
                points = []
        for x, y in points:
            if not (0 <= x < self._width and 0 <= y < self._height):
                size = f"{self._width}x{self._height}"
                raise ActionRefusedError(f"point {x},{y} is outside the screen of {size}")
        match action:
            case Click(button=button) | Drag(button=button) if button not in _BUTTONS:
                raise ActionRefusedError(f"button {button}; there are 1 left, 2 middle, 3 right")
            case Click(count=count) if not 1 <= count <= 3:
                raise ActionRefusedError(f"{count} clicks; 1 to 3 are possible")
            case Scroll(dx=dx, dy=dy) if abs(dx) + abs(dy) > _NOTCHES_MAX:
                raise ActionRefusedError(f"scroll by {dx},{dy}; at most {_NOTCHES_MAX} notches")
            case Wait(wait_ms=wait_ms) if not 0 <= wait_ms <= WAIT_MS_MAX:
                raise ActionRefusedError(f"wait of {wait_ms} ms; 0 to {WAIT_MS_MAX} are possible")
            case _:
                pass

    def _perform(self, action: Action, wait_drained: Callable[[], object]) -> None:
        match action:
            case Click():
                self._move(action.x, action.y)
                self.keyboard.hold(action.keys)
                for _ in range(action.count):
                    self._press_button(action.button)
            case Move():
                self._move(action.x, action.y)
            case Drag():
                self._drag(action)
            case Scroll():
                self._move(action.x, action.y)
                self.keyboard.hold(action.keys)
                for _ in range(abs(action.dy)):
                    self._press_button(_DOWN if action.dy > 0 else _UP)
                for _ in range(abs(action.dx)):
                    self._press_button(_RIGHT if action.dx > 0 else _LEFT)
            case Type():
                self.keyboard.type(action.text, wait_drained)
            case Key():
                self.keyboard.hold(action.keys)
            case Wait():
                time.sleep(action.wait_ms / 1000)
            case Finish() | Fail():
                pass

    def _move(self, x: int, y: int) -> None:
        xtest.fake_input(self._display, X.MotionNotify, x=x, y=y)

    def _press_button(self, button: int) -> None:
        xtest.fake_input(self._display, X.ButtonPress, button)
        xtest.fake_input(self._display, X.ButtonRelease, button)

    def _drag(self, action: Drag) -> None:
        start = action.path[0]
        self._move(start.x, start.y)
        self.keyboard.hold(action.keys)
        xtest.fake_input(self._display, X.ButtonPress, action.button)
        try:
            for before, after in zip(action.path, action.path[1:], strict=False):
                # Toolkits start a drag only after several motions beyond their threshold.
                for part in range(1, 9):
                    x = before.x + (after.x - before.x) * part // 8
                    y = before.y + (after.y - before.y) * part // 8
                    self._move(x, y)
                    self._display.sync()
        finally:
            xtest.fake_input(self._display, X.ButtonRelease, action.button)
