"""Names an action so that two samples of the same intention get the same name."""

from __future__ import annotations

import unicodedata
from typing import Literal, assert_never

from envs_node.messages.actions import (
    MODIFIERS,
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
from envs_node.messages.keys import UnknownKeyError, canonical_chord

GRID_PX = 50
FingerprintMode = Literal["element", "grid"]


def fingerprint(action: Action, mode: FingerprintMode = "element", grid_px: int = GRID_PX) -> str:
    """Name an action by its type, its exact arguments, and its points snapped to a grid.

    In mode `element` a click that names its target is snapped to that element instead: two
    jittered clicks on one button land in different cells of the grid two times in five.
    """
    match action:
        case Click(button=button, count=count, keys=keys):
            return f"click {_held(keys)}{button}x{count} {_place(action, mode, grid_px)}"
        case Move(x=x, y=y, keys=keys):
            return f"move {_held(keys)}{_cell(x, y, grid_px)}"
        case MouseDown(x=x, y=y, button=button):
            return f"mousedown {button} {_cell(x, y, grid_px)}"
        case MouseUp(x=x, y=y, button=button):
            return f"mouseup {button} {_cell(x, y, grid_px)}"
        case Drag(path=path, button=button, keys=keys):
            ends = " to ".join(_cell(at.x, at.y, grid_px) for at in (*path[:1], *path[-1:]))
            return f"drag {_held(keys)}{button} {ends}"
        case Type(text=text):
            # A newline is the Return key: it does something that no space does.
            return "type " + "\n".join(_normal(line) for line in text.split("\n"))
        case Scroll(x=x, y=y, dx=dx, dy=dy, keys=keys):
            direction = f"{_sign(dx)}{_sign(dy)}"
            return f"scroll {_held(keys)}{direction} {_cell(x, y, grid_px)}"
        case Key(keys=keys, count=count, hold_ms=hold_ms):
            # How long a chord is held matters as little as how far the wheel turns.
            extra = f" x{count}" * (count != 1) + " held" * (hold_ms > 0)
            return f"key {'+'.join(_ordered(keys))}{extra}"
        case KeyDown(key=key):
            return f"keydown {'+'.join(_ordered((key,)))}"
        case KeyUp(key=key):
            return f"keyup {'+'.join(_ordered((key,)))}"
        case Wait():
            return "wait"
        case Finish():
            return "finish"
        case Fail():
            return "fail"
    assert_never(action)


def canonical_path(fingerprints: tuple[str, ...], changed: tuple[bool, ...]) -> tuple[str, ...]:
    """The fingerprints of the steps that changed something: what makes two successes distinct."""
    assert len(fingerprints) == len(changed), "one claim a step"
    return tuple(name for name, is_changed in zip(fingerprints, changed, strict=True) if is_changed)


def _place(click: Click, mode: FingerprintMode, grid_px: int) -> str:
    target = click.target
    if mode == "element" and target is not None and target.name:
        return f"{target.role}: {_normal(target.name)}"
    return _cell(click.x, click.y, grid_px)


def _cell(x: int, y: int, grid_px: int) -> str:
    return f"@{x // grid_px},{y // grid_px}"


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _held(keys: tuple[str, ...]) -> str:
    return "".join(f"{key}+" for key in _ordered(keys))


def _sign(notches: int) -> str:
    return "+" if notches > 0 else "-" if notches < 0 else "0"


def _ordered(keys: tuple[str, ...]) -> list[str]:
    """Modifiers first, each key by its one name. A capital letter is one with Shift."""
    try:
        names = canonical_chord(keys)
    except UnknownKeyError:
        names = tuple(key.lower() for key in keys)  # no desktop will press it
    capitals = [name for name in names if len(name) == 1 and name.isupper() and name.isascii()]
    names = (*names, "shift") if capitals else names
    lower = [name.lower() if name in capitals else name for name in names]
    held = [key for key in MODIFIERS if key in lower]
    return held + [key for key in lower if key not in MODIFIERS]
