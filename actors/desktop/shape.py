"""What an action must be on any screen: points on it, and numbers within their limits. Pure."""

from __future__ import annotations

from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Key,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    Wait,
)

_WAIT_MS_MAX = 30_000
_BUTTON_MAX = 9
_COUNT_MAX = 10
_NOTCHES_MAX = 100
_KEYS_MAX = 8
_POINTS_MAX = 500


def check_shape(action: Action, width: int, height: int) -> None:
    """Refuse what makes no sense on a screen of this size.

    Raises:
        ActionRefusedError: a point is beyond the screen, or a number beyond its limit.
    """
    for x, y in points_of(action):
        if not (0 <= x < width and 0 <= y < height):
            raise ActionRefusedError(f"point {x},{y} is outside the screen of {width}x{height}")
    match action:
        case Drag(path=path) if not 2 <= len(path) <= _POINTS_MAX:
            raise ActionRefusedError(f"a drag has 2 to {_POINTS_MAX} points, not {len(path)}")
        case Click(count=count) | Key(count=count):
            _check_range("count", count, 1, _COUNT_MAX)
        case Scroll(dx=dx, dy=dy) if abs(dx) + abs(dy) > _NOTCHES_MAX:
            raise ActionRefusedError(f"scroll by {dx},{dy}; at most {_NOTCHES_MAX} notches")
        case Wait(wait_ms=wait_ms):
            _check_range("wait_ms", wait_ms, 0, _WAIT_MS_MAX)
        case _:
            pass
    match action:
        case Click(button=button) | Drag(button=button):
            _check_range("button", button, 1, _BUTTON_MAX)
        case MouseDown(button=button) | MouseUp(button=button):
            _check_range("button", button, 1, _BUTTON_MAX)
        case Key(count=count, hold_ms=hold_ms):
            _check_range("count times hold_ms", count * hold_ms, 0, _WAIT_MS_MAX)
        case _:
            pass
    match action:
        case Click(keys=keys) | Move(keys=keys) | Drag(keys=keys) | Scroll(keys=keys):
            _check_keys(keys, 0)
        case Key(keys=keys):
            _check_keys(keys, 1)
        case _:
            pass


def points_of(action: Action) -> list[tuple[int, int]]:
    """The points that an action touches."""
    match action:
        case Drag(path=path):
            return [(point.x, point.y) for point in path]
        case (
            Click(x=x, y=y)
            | Move(x=x, y=y)
            | MouseDown(x=x, y=y)
            | MouseUp(x=x, y=y)
            | Scroll(x=x, y=y)
        ):
            return [(x, y)]
        case _:
            return []


def _check_range(name: str, value: int, least: int, most: int) -> None:
    """Refuse a number beyond its limits."""
    if not least <= value <= most:
        raise ActionRefusedError(f"{name} is {value}; {least} to {most} are possible")


def _check_keys(keys: tuple[str, ...], least: int) -> None:
    if not least <= len(keys) <= _KEYS_MAX:
        raise ActionRefusedError(f"{len(keys)} keys; {least} to {_KEYS_MAX} are possible")
