"""From an action to the calls of PyAutoGUI that perform it on another machine.

Every call is written by us; of an action only numbers and names of keys get into it, and text as
the literal that Python itself makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.actors.desktop.shape import check_shape
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
from envs_node.messages.keys import KEYSYMS, UnknownKeyError, canonical_chord

_BUTTONS = {1: "left", 2: "middle", 3: "right"}
_TEXT_CHARACTERS_MAX = 5000
"""At 5 ms each a text is typed before anybody loses patience."""
_INTERVAL_S = 0.005
_HEAD = "import pyautogui as p, time; p.FAILSAFE = False; p.PAUSE = 0.02; "
_NAMES = {
    "super": "winleft", "super_r": "winright", "ctrl_r": "ctrlright", "shift_r": "shiftright",
    "alt_r": "altright", "menu": "apps", "kp_add": "add", "kp_subtract": "subtract",
    "kp_multiply": "multiply", "kp_divide": "divide", "kp_decimal": "decimal", "kp_enter": "",
    **{f"kp_{digit}": f"num{digit}" for digit in range(10)},
}  # fmt: skip
"""Keys that PyAutoGUI calls otherwise; the empty one it does not know."""


class Gestures:
    """The input of one machine. Remembers what is to stay down."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._buttons: set[int] = set()
        self._keys: set[str] = set()

    def park(self) -> str:
        """Code that puts the pointer into the last corner."""
        return f"{_HEAD}p.moveTo({self._width - 1}, {self._height - 1})"

    def code(self, action: Action) -> str:
        """Code that performs an action; nothing where there is nothing to be done.

        Raises:
            ActionRefusedError: it makes no sense on this screen, or PyAutoGUI cannot do it.
        """
        check_shape(action, self._width, self._height)
        calls = list(self._calls(action))
        return _HEAD + "; ".join(calls) if calls else ""

    def _calls(self, action: Action) -> Iterator[str]:
        match action:
            case Click(x=x, y=y, keys=keys):
                button = self._free(action.button)
                yield f"p.moveTo({x:d}, {y:d})"
                click = f"p.click(clicks={action.count:d}, button={button!r})"
                yield from _holding(_names(keys), click)
            case Move(x=x, y=y, keys=keys):
                yield from _holding(_names(keys), f"p.moveTo({x:d}, {y:d})")
            case Drag(path=path, keys=keys):
                button, took_s = self._free(action.button), 0.15 if len(path) < 20 else 0
                yield f"p.moveTo({path[0].x:d}, {path[0].y:d})"
                moves = (f"p.moveTo({x:d}, {y:d}, duration={took_s})" for x, y in _parts(path))
                down, up = f"p.mouseDown(button={button!r})", f"p.mouseUp(button={button!r})"
                yield from _holding(_names(keys), down, *moves, up)
            case Scroll(x=x, y=y, dx=dx, dy=dy, keys=keys):
                yield f"p.moveTo({x:d}, {y:d})"
                turns = [f"p.scroll({-dy:d})"] * bool(dy) + [f"p.hscroll({dx:d})"] * bool(dx)
                yield from _holding(_names(keys), *turns)
            case MouseDown(x=x, y=y, button=number):
                button = self._free(number)
                self._buttons.add(number)
                yield f"p.moveTo({x:d}, {y:d}); p.mouseDown(button={button!r})"
            case MouseUp(x=x, y=y, button=number):
                if number not in self._buttons:
                    raise ActionRefusedError(f"button {number} is not down")
                self._buttons.remove(number)
                yield f"p.moveTo({x:d}, {y:d}); p.mouseUp(button={_BUTTONS[number]!r})"
            case Type(text=text):
                yield from _typing(text)
            case Key(keys=keys):
                hold = [f"time.sleep({action.hold_ms / 1000:.3f})"] * bool(action.hold_ms)
                for _ in range(action.count):
                    yield from _holding(_names(keys), *hold)
            case KeyDown(key=key) | KeyUp(key=key):
                yield self._keep(key, isinstance(action, KeyDown))
            case Wait(wait_ms=wait_ms):
                yield f"time.sleep({wait_ms / 1000:.3f})"
            case Finish() | Fail():
                yield from (f"p.mouseUp(button={_BUTTONS[n]!r})" for n in sorted(self._buttons))
                yield from (f"p.keyUp({name!r})" for name in sorted(self._keys))
                self._buttons.clear()
                self._keys.clear()

    def _free(self, button: int) -> str:
        """The name of a button that is up."""
        if button not in _BUTTONS:
            raise ActionRefusedError(f"PyAutoGUI has no button {button} on this machine; 1 to 3")
        if button in self._buttons:
            raise ActionRefusedError(f"button {button} is down: let it go first")
        return _BUTTONS[button]

    def _keep(self, key: str, is_down: bool) -> str:
        (name,) = _names((key,))
        if (name in self._keys) == is_down:
            raise ActionRefusedError(f"key {key} is {'' if is_down else 'not '}down")
        change: Callable[[str], None] = self._keys.add if is_down else self._keys.remove
        change(name)
        return f"p.key{'Down' if is_down else 'Up'}({name!r})"


def _names(keys: tuple[str, ...]) -> list[str]:
    """What PyAutoGUI calls these keys."""
    try:
        canonical = canonical_chord(keys)
    except UnknownKeyError as error:
        raise ActionRefusedError(str(error)) from error
    names = [_NAMES.get(key, key) for key in canonical]
    for key, name in zip(canonical, names, strict=True):
        if not name or (key not in KEYSYMS and not _is_plain(key)):
            raise ActionRefusedError(f"PyAutoGUI has no key {key!r} on this machine")
    return names


def _holding(names: list[str], *calls: str) -> Iterator[str]:
    """Calls while keys are down, which are let go in reverse order."""
    yield from (f"p.keyDown({name!r})" for name in names)
    yield from calls
    yield from (f"p.keyUp({name!r})" for name in reversed(names))


def _typing(text: str) -> Iterator[str]:
    """Type a text; a `<` as Shift and comma, for PyAutoGUI makes another character of it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > _TEXT_CHARACTERS_MAX:
        raise ActionRefusedError(f"{len(text)} characters at once; {_TEXT_CHARACTERS_MAX} at most")
    for character in text:
        if character not in "\n\t" and not _is_plain(character):
            said = f"{character!r} cannot be typed on this machine: PyAutoGUI knows ASCII alone"
            raise ActionRefusedError(said)
    for number, part in enumerate(text.split("<")):
        if number:
            yield "p.hotkey('shift', ',')"
        if part:
            yield f"p.write({part!r}, interval={_INTERVAL_S})"


def _is_plain(character: str) -> bool:
    return len(character) == 1 and " " <= character <= "~"


def _parts(path: Sequence[Point]) -> Iterator[tuple[int, int]]:
    """The corners of a path behind its first, and a point before each.

    A drag begins only after several motions.
    """
    for before, after in pairwise(path):
        yield (before.x + after.x) // 2, (before.y + after.y) // 2
        yield after.x, after.y
