"""OSWorld's `computer_13`: `{"action_type": "CLICK", "parameters": {"x": 1, "y": 2}}`."""

from __future__ import annotations

from collections.abc import Callable

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
    Point,
    Scroll,
    Type,
    Wait,
)
from envs_node.messages.keys import UnknownKeyError, canonical_chord, canonical_key
from envs_node.policy.dialects.text import (
    DialectError,
    Fields,
    NotExpressibleError,
    number,
    without_closing_tags,
    words,
)

_BUTTONS = {"left": 1, "middle": 2, "right": 3}
_NAMES = {number: name for name, number in _BUTTONS.items()}


def parse_computer_13(fields: Fields, pointer: Point) -> Action:
    """The canonical action of a decoded one.

    Args:
        pointer: where the pointer is: what names no point happens there. The dialect's `dy` is
            positive upwards, as in pyautogui.

    Raises:
        DialectError: it is no action of this dialect.
    """
    kind = words(fields, "action_type").upper()
    if kind not in _READERS:
        raise DialectError(f"no action is named {kind[:40]!r}; known are {', '.join(_READERS)}")
    values = fields.get("parameters", {k: v for k, v in fields.items() if k != "action_type"})
    if not isinstance(values, dict):
        raise DialectError(f"`parameters` must be an object, not {values!r:.60}")
    try:
        return _READERS[kind](values, pointer)
    except UnknownKeyError as error:
        raise DialectError(str(error)) from error


def format_computer_13(action: Action) -> list[dict[str, object]]:
    """The actions of this dialect that do what a canonical one does.

    Raises:
        NotExpressibleError: there are none.
    """
    if getattr(action, "keys", ()) and not isinstance(action, Key):
        raise NotExpressibleError("computer_13 holds no keys while it clicks, moves or scrolls")
    match action:
        case Click(x=x, y=y, button=button, count=count) if button in _NAMES and count <= 3:
            return [_words("CLICK", x=x, y=y, button=_NAMES[button], num_clicks=count)]
        case Move(x=x, y=y):
            return [_words("MOVE_TO", x=x, y=y)]
        case MouseDown(x=x, y=y, button=button) if button in _NAMES:
            return [_words("MOVE_TO", x=x, y=y), _words("MOUSE_DOWN", button=_NAMES[button])]
        case MouseUp(x=x, y=y, button=button) if button in _NAMES:
            return [_words("MOVE_TO", x=x, y=y), _words("MOUSE_UP", button=_NAMES[button])]
        case Drag(path=(start, end), button=1):
            return [_words("MOVE_TO", x=start.x, y=start.y), _words("DRAG_TO", x=end.x, y=end.y)]
        case Scroll(x=x, y=y, dx=dx, dy=dy):
            return [_words("MOVE_TO", x=x, y=y), _words("SCROLL", dx=dx, dy=-dy)]
        case Type(text=text):
            return [_words("TYPING", text=text)]
        case Key(keys=(key,), count=1, hold_ms=0):
            return [_words("PRESS", key=key)]
        case Key(keys=keys, count=1, hold_ms=0):
            return [_words("HOTKEY", keys=list(keys))]
        case KeyDown(key=key):
            return [_words("KEY_DOWN", key=key)]
        case KeyUp(key=key):
            return [_words("KEY_UP", key=key)]
        case Wait():
            return [{"action_type": "WAIT"}]
        case Finish():
            return [{"action_type": "DONE"}]
        case Fail():
            return [{"action_type": "FAIL"}]
    raise NotExpressibleError(f"computer_13 has no words for {action!r:.100}")


def _words(kind: str, **parameters: object) -> dict[str, object]:
    return {"action_type": kind, "parameters": parameters}


def _place(values: Fields, pointer: Point) -> tuple[int, int]:
    if ("x" in values) != ("y" in values):
        raise DialectError("`x` and `y` come together")
    return round(number(values, "x", pointer.x)), round(number(values, "y", pointer.y))


def _click(values: Fields, pointer: Point) -> Action:
    x, y = _place(values, pointer)
    return Click(x=x, y=y, button=_button(values), count=round(number(values, "num_clicks", 1)))


def _double_click(values: Fields, pointer: Point) -> Action:
    x, y = _place(values, pointer)
    return Click(x=x, y=y, count=2)


def _right_click(values: Fields, pointer: Point) -> Action:
    x, y = _place(values, pointer)
    return Click(x=x, y=y, button=3)


def _move(values: Fields, pointer: Point) -> Action:
    return Move(x=round(number(values, "x")), y=round(number(values, "y")))


def _drag(values: Fields, pointer: Point) -> Action:
    end = Point(round(number(values, "x")), round(number(values, "y")))
    return Drag(path=(pointer, end))


def _scroll(values: Fields, pointer: Point) -> Action:
    dx, dy = round(number(values, "dx", 0)), -round(number(values, "dy", 0))
    return Scroll(x=pointer.x, y=pointer.y, dx=dx, dy=dy)


def _hotkey(values: Fields, pointer: Point) -> Action:
    keys = values.get("keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise DialectError(f"`keys` must be a list of names, not {keys!r:.60}")
    return Key(keys=canonical_chord(tuple(keys)))


def _button(values: Fields) -> int:
    name = words(values, "button", "left")
    if name not in _BUTTONS:
        raise DialectError(f"`button` is {name[:40]!r}; there are {', '.join(_BUTTONS)}")
    return _BUTTONS[name]


_READERS: dict[str, Callable[[Fields, Point], Action]] = {
    "MOVE_TO": _move,
    "CLICK": _click,
    "MOUSE_DOWN": lambda values, at: MouseDown(x=at.x, y=at.y, button=_button(values)),
    "MOUSE_UP": lambda values, at: MouseUp(x=at.x, y=at.y, button=_button(values)),
    "RIGHT_CLICK": _right_click,
    "DOUBLE_CLICK": _double_click,
    "DRAG_TO": _drag,
    "SCROLL": _scroll,
    "TYPING": lambda values, at: Type(text=without_closing_tags(words(values, "text"))),
    "PRESS": lambda values, at: Key(keys=canonical_chord((words(values, "key"),))),
    "KEY_DOWN": lambda values, at: KeyDown(key=canonical_key(words(values, "key"))),
    "KEY_UP": lambda values, at: KeyUp(key=canonical_key(words(values, "key"))),
    "HOTKEY": _hotkey,
    "WAIT": lambda values, at: Wait(),
    "FAIL": lambda values, at: Fail(),
    "DONE": lambda values, at: Finish(),
}
