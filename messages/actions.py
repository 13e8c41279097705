"""The canonical actions: what a policy may ask of a desktop. Points are native screen pixels."""

from __future__ import annotations

import msgspec

from envs_node.messages.base import Message

MODIFIERS = ("ctrl", "shift", "alt", "super")


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A point on the native screen, in pixels from the top left corner."""

    x: int
    y: int


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The element a point was aimed at. It names the action; the point performs it."""

    role: str
    name: str


class Click(Message, frozen=True, kw_only=True):
    """Press and release a button `count` times at a point, holding `keys`."""

    x: int
    y: int
    button: int = 1
    """X11 numbering: 1 left, 2 middle, 3 right, 8 back, 9 forward; 4 to 7 are the wheel's."""
    count: int = 1
    keys: tuple[str, ...] = ()
    target: Target | None = None


class Move(Message, frozen=True, kw_only=True):
    """Move the pointer to a point, holding `keys`."""

    x: int
    y: int
    keys: tuple[str, ...] = ()


class MouseDown(Message, frozen=True, kw_only=True):
    """Press a button at a point and keep it down, over all actions until `MouseUp`."""

    x: int
    y: int
    button: int = 1


class MouseUp(Message, frozen=True, kw_only=True):
    """Let go of a button at a point."""

    x: int
    y: int
    button: int = 1


class Drag(Message, frozen=True, kw_only=True):
    """Press at the first point, move along the path, release at the last."""

    path: tuple[Point, ...]
    button: int = 1
    keys: tuple[str, ...] = ()


class Type(Message, frozen=True, kw_only=True):
    """Type Unicode text where the keyboard focus is. A newline is the Return key."""

    text: str


class Scroll(Message, frozen=True, kw_only=True):
    """Turn the wheel at a point. Positive `dy` scrolls down, positive `dx` right, in notches."""

    x: int
    y: int
    dx: int = 0
    dy: int = 0
    keys: tuple[str, ...] = ()


class Key(Message, frozen=True, kw_only=True):
    """Press a chord, released in reverse order. Lower case names: `ctrl`, `s`, `enter`, `f2`."""

    keys: tuple[str, ...]
    """Names of `messages.keys`; a character names its own key."""
    count: int = 1
    """How often it is pressed."""
    hold_ms: int = 0
    """How long it is kept down each time."""


class KeyDown(Message, frozen=True, kw_only=True):
    """Press a key and keep it down, over all actions until `KeyUp`."""

    key: str


class KeyUp(Message, frozen=True, kw_only=True):
    """Let go of a key."""

    key: str


class Wait(Message, frozen=True, kw_only=True):
    """Do nothing for a while, then look again."""

    wait_ms: int = 1000


class Finish(Message, frozen=True, kw_only=True):
    """The policy says the task is done. Ends the branch."""

    answer: str = ""


class Fail(Message, frozen=True, kw_only=True):
    """The policy says the task cannot be done. Ends the branch."""

    reason: str = ""


Action = (
    Click | Move | MouseDown | MouseUp | Drag | Type | Scroll
    | Key | KeyDown | KeyUp | Wait | Finish | Fail
)  # fmt: skip
