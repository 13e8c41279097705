"""OpenAI's computer tool: `{"type": "click", "x": 1, "y": 2, "button": "left"}`."""

from __future__ import annotations

from envs_node.messages.actions import Action, Click, Drag, Key, Move, Point, Scroll, Type, Wait
from envs_node.messages.keys import UnknownKeyError, canonical_chord
from envs_node.policy.dialects.text import (
    DialectError,
    Fields,
    NotExpressibleError,
    number,
    without_closing_tags,
    words,
)

NOTCH_PX = 100
"""What one notch of the wheel scrolls, as browsers count."""
_BUTTONS = {"left": 1, "wheel": 2, "right": 3, "back": 8, "forward": 9}
_NAMES = {number: name for name, number in _BUTTONS.items()}


def parse_openai(fields: Fields) -> Action:
    """The canonical action of a decoded one, in pixels of the picture that was sent.

    Raises:
        DialectError: it is no action, or `screenshot`, which only looks.
    """
    try:
        return _read(words(fields, "type"), fields)
    except UnknownKeyError as error:
        raise DialectError(str(error)) from error


def format_openai(action: Action) -> dict[str, object]:
    """The action of this dialect that does what a canonical one does.

    Raises:
        NotExpressibleError: there is none.
    """
    match action:
        case Click(x=x, y=y, button=button, count=1, keys=keys) if button in _NAMES:
            return {"type": "click", "x": x, "y": y, "button": _NAMES[button], **_held(keys)}
        case Click(x=x, y=y, button=1, count=2, keys=keys):
            return {"type": "double_click", "x": x, "y": y, **_held(keys)}
        case Move(x=x, y=y, keys=keys):
            return {"type": "move", "x": x, "y": y, **_held(keys)}
        case Drag(path=path, button=1, keys=keys):
            points = [{"x": point.x, "y": point.y} for point in path]
            return {"type": "drag", "path": points, **_held(keys)}
        case Scroll(x=x, y=y, dx=dx, dy=dy, keys=keys):
            turns = {"scroll_x": dx * NOTCH_PX, "scroll_y": dy * NOTCH_PX}
            return {"type": "scroll", "x": x, "y": y, **turns, **_held(keys)}
        case Type(text=text):
            return {"type": "type", "text": text}
        case Key(keys=keys, count=1, hold_ms=0):
            return {"type": "keypress", "keys": list(keys)}
        case Wait():
            return {"type": "wait"}
    raise NotExpressibleError(f"OpenAI's computer tool has no words for {action!r:.100}")


def _read(kind: str, fields: Fields) -> Action:
    keys = _keys(fields.get("keys") or [])
    match kind:
        case "click":
            name = words(fields, "button", "left")
            if name not in _BUTTONS:
                raise DialectError(f"`button` is {name[:40]!r}; there are {', '.join(_BUTTONS)}")
            x, y = _at(fields)
            return Click(x=x, y=y, button=_BUTTONS[name], keys=keys)
        case "double_click":
            x, y = _at(fields)
            return Click(x=x, y=y, count=2, keys=keys)
        case "move":
            x, y = _at(fields)
            return Move(x=x, y=y, keys=keys)
        case "drag":
            path = fields.get("path")
            if not isinstance(path, list) or not all(isinstance(point, dict) for point in path):
                raise DialectError(f"`path` must be a list of points, not {path!r:.60}")
            points = tuple(Point(*_at(point)) for point in path)
            return Drag(path=points, keys=keys)
        case "scroll":
            dx, dy = (_notches(number(fields, name, 0)) for name in ("scroll_x", "scroll_y"))
            x, y = _at(fields)
            return Scroll(x=x, y=y, dx=dx, dy=dy, keys=keys)
        case "type":
            return Type(text=without_closing_tags(words(fields, "text")))
        case "keypress":
            if not keys:
                raise DialectError("`keys` names none")
            return Key(keys=keys)
        case "wait":
            return Wait()
    raise DialectError(f"no action is named {kind[:40]!r}, or it only looks")


def _at(fields: Fields) -> tuple[int, int]:
    return round(number(fields, "x")), round(number(fields, "y"))


def _notches(pixels: float) -> int:
    """Whole notches, and one at least of whatever is not nothing."""
    notches = round(pixels / NOTCH_PX)
    return notches or (pixels > 0) - (pixels < 0)


def _keys(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise DialectError(f"`keys` must be a list of names, not {value!r:.60}")
    return canonical_chord(tuple(value))


def _held(keys: tuple[str, ...]) -> dict[str, object]:
    return {"keys": list(keys)} if keys else {}
