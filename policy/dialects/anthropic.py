"""Anthropic's computer tool: `{"action": "left_click", "coordinate": [1, 2], "text": "ctrl"}`."""

from __future__ import annotations

from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Key,
    MouseDown,
    MouseUp,
    Move,
    Point,
    Scroll,
    Type,
    Wait,
)
from envs_node.messages.keys import UnknownKeyError, parse_chord
from envs_node.policy.dialects.text import (
    DialectError,
    Fields,
    NotExpressibleError,
    number,
    point,
    without_closing_tags,
    words,
)

_CLICKS = {
    "left_click": (1, 1), "middle_click": (2, 1), "right_click": (3, 1), "double_click": (1, 2),
    "triple_click": (1, 3),
}  # fmt: skip
_CLICK_NAMES = {value: name for name, value in _CLICKS.items()}
_WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def parse_anthropic(fields: Fields, pointer: Point) -> Action:
    """The canonical action of a decoded tool call, in pixels of the picture that was sent.

    Args:
        pointer: where the pointer is: what names no point happens there.

    Raises:
        DialectError: it is no action, or one that only looks, such as `screenshot`.
    """
    try:
        return _read(words(fields, "action"), fields, pointer)
    except UnknownKeyError as error:
        raise DialectError(str(error)) from error


def format_anthropic(action: Action) -> list[dict[str, object]]:
    """The tool calls that do what a canonical action does.

    Raises:
        NotExpressibleError: there are none.
    """
    match action:
        case Click(x=x, y=y, button=button, count=count, keys=keys) if (
            button,
            count,
        ) in _CLICK_NAMES:
            name = _CLICK_NAMES[button, count]
            return [{"action": name, "coordinate": [x, y], **_held(keys)}]
        case Move(x=x, y=y, keys=()):
            return [{"action": "mouse_move", "coordinate": [x, y]}]
        case MouseDown(x=x, y=y, button=1):
            move: dict[str, object] = {"action": "mouse_move", "coordinate": [x, y]}
            return [move, {"action": "left_mouse_down"}]
        case MouseUp(x=x, y=y, button=1):
            move = {"action": "mouse_move", "coordinate": [x, y]}
            return [move, {"action": "left_mouse_up"}]
        case Drag(path=(start, end), button=1, keys=()):
            return [
                {
                    "action": "left_click_drag",
                    "start_coordinate": [start.x, start.y],
                    "coordinate": [end.x, end.y],
                }
            ]
        case Scroll(x=x, y=y, dx=dx, dy=dy, keys=keys) if (dx == 0) != (dy == 0):
            ways = {way: name for name, way in _WAYS.items()}
            way = ways[(dx > 0) - (dx < 0), (dy > 0) - (dy < 0)]
            return [
                {
                    "action": "scroll",
                    "coordinate": [x, y],
                    "scroll_direction": way,
                    "scroll_amount": abs(dx + dy),
                    **_held(keys),
                }
            ]
        case Type(text=text):
            return [{"action": "type", "text": text}]
        case Key(keys=keys, count=1, hold_ms=0):
            return [{"action": "key", "text": "+".join(keys)}]
        case Key(keys=keys, count=count, hold_ms=0):
            return [{"action": "key", "text": "+".join(keys), "repeat": count}]
        case Key(keys=keys, count=1, hold_ms=hold_ms):
            return [{"action": "hold_key", "text": "+".join(keys), "duration": hold_ms / 1000}]
        case Wait(wait_ms=wait_ms):
            return [{"action": "wait", "duration": wait_ms / 1000}]
    raise NotExpressibleError(f"the computer tool has no words for {action!r:.100}")


def _read(name: str, fields: Fields, pointer: Point) -> Action:
    held = fields.get("text")
    if name in _CLICKS:
        x, y = _place(fields, pointer)
        button, count = _CLICKS[name]
        return Click(x=x, y=y, button=button, count=count, keys=_keys(held))
    match name:
        case "mouse_move":
            x, y = point(fields.get("coordinate"), "coordinate")
            return Move(x=x, y=y)
        case "left_mouse_down":
            return MouseDown(x=pointer.x, y=pointer.y)
        case "left_mouse_up":
            return MouseUp(x=pointer.x, y=pointer.y)
        case "left_click_drag":
            start = fields.get("start_coordinate")
            at = pointer if start is None else Point(*point(start, "start_coordinate"))
            return Drag(path=(at, Point(*point(fields.get("coordinate"), "coordinate"))))
        case "scroll":
            x, y = _place(fields, pointer)
            way = words(fields, "scroll_direction")
            if way not in _WAYS:
                raise DialectError(f"`scroll_direction` is {way[:40]!r}; known are {[*_WAYS]}")
            amount = round(number(fields, "scroll_amount"))
            dx, dy = (amount * part for part in _WAYS[way])
            return Scroll(x=x, y=y, dx=dx, dy=dy, keys=_keys(held))
        case "type":
            return Type(text=without_closing_tags(words(fields, "text")))
        case "key":
            count = round(number(fields, "repeat", 1))
            return Key(keys=parse_chord(words(fields, "text")), count=count)
        case "hold_key":
            held_ms = round(number(fields, "duration") * 1000)
            return Key(keys=parse_chord(words(fields, "text")), hold_ms=held_ms)
        case "wait":
            return Wait(wait_ms=round(number(fields, "duration") * 1000))
    raise DialectError(f"no action is named {name[:40]!r}, or it only looks")


def _place(fields: Fields, pointer: Point) -> tuple[int, int]:
    value = fields.get("coordinate")
    return (pointer.x, pointer.y) if value is None else point(value, "coordinate")


def _keys(value: object) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if not isinstance(value, str):
        raise DialectError(f"`text` must name keys, not {value!r:.60}")
    return parse_chord(value)


def _held(keys: tuple[str, ...]) -> dict[str, object]:
    return {"text": "+".join(keys)} if keys else {}
