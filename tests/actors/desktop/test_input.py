"""What a program is told of each action: read from xev, which prints every event it gets."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from envs_node.actors.desktop.errors import ActionRefusedError, DesktopLostError
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
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
)
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.actors.desktop.typing_places import distinct
from tests.fakes_desktop import make_task, open_task

pytestmark = pytest.mark.live
XEV = "xev -geometry 1200x600+10+20 -event keyboard -event button </dev/null >xev.log 2>&1 &"
_EVENT = re.compile(
    r"^(Key|Button)(Press|Release) event, .*? synthetic (\w+),.*?\n"
    r".*?state (0x\w+), (?:keycode \d+ \(keysym 0x\w+, (\w+)\)|button (\d+))",
    re.MULTILINE | re.DOTALL,
)
SHIFT, CTRL = 0x1, 0x4


class Told:
    """A desktop on which xev has the keyboard and lies below the pointer."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        sandbox.reset(make_task())
        shell(sandbox, f"cd /home/user && {XEV}")
        connection = sandbox._living().connection
        assert wait_until(lambda: connection.focused() != 0 and len(sandbox.windows()) == 1)
        sandbox.observe()
        self._log = inside(sandbox, "/home/user/xev.log")

    def by(self, *actions: Action) -> list[tuple[str, str, int]]:
        """The events of some actions: kind, key or button, and what was held meanwhile."""
        before = len(self._all())
        for action in actions:
            self._sandbox.act(action)
        self._sandbox.act(Key(keys=("f12",)))
        assert wait_until(lambda: self._all()[-1:] == [("KeyRelease", "F12", 0)])
        return self._all()[before:-2]

    def _all(self) -> list[tuple[str, str, int]]:
        found = _EVENT.findall(self._log.read_text())
        assert {synthetic for _, _, synthetic, *_ in found} <= {"NO"}
        return [
            (kind + way, name or number, int(state, 16) & 0xFF)
            for kind, way, _, state, name, number in found
        ]


@pytest.fixture
def told(sandbox: Sandbox) -> Told:
    return Told(sandbox)


def presses(events: list[tuple[str, str, int]]) -> list[tuple[str, int]]:
    return [(name, state) for kind, name, state in events if kind.endswith("Press")]


def test_every_button_is_clicked_and_counted_with_what_is_held(told: Told) -> None:
    events = told.by(
        *(Click(x=200, y=200, button=button) for button in range(1, 10)),
        Click(x=200, y=200, count=3, keys=("ctrl", "shift")),
    )

    buttons = [(name, state) for name, state in presses(events) if name.isdigit()]
    assert buttons == [(str(number), 0) for number in range(1, 10)] + [("1", CTRL | SHIFT)] * 3


def test_the_wheel_turns_on_both_axes_in_the_right_direction(told: Told) -> None:
    at = {"x": 200, "y": 200}
    events = told.by(
        Scroll(**at, dy=2), Scroll(**at, dy=-1), Scroll(**at, dx=3), Scroll(**at, dx=-1),
        Scroll(**at, dy=1, keys=("ctrl",)),
    )  # fmt: skip

    turns = [(name, state) for name, state in presses(events) if name.isdigit()]
    assert turns == [("5", 0)] * 2 + [("4", 0)] + [("7", 0)] * 3 + [("6", 0)] + [("5", CTRL)]


def test_what_is_kept_down_stays_over_actions_until_it_is_let_go(told: Told) -> None:
    events = told.by(
        KeyDown(key="ctrl"),
        MouseDown(x=200, y=200, button=3),
        Click(x=300, y=300),
        MouseUp(x=400, y=300, button=3),
        KeyUp(key="ctrl"),
        Click(x=300, y=300),
    )

    assert events == [
        ("KeyPress", "Control_L", 0),
        ("ButtonPress", "3", CTRL),
        ("ButtonPress", "1", CTRL),
        ("ButtonRelease", "1", CTRL),
        ("ButtonRelease", "3", CTRL),
        ("KeyRelease", "Control_L", CTRL),
        ("ButtonPress", "1", 0),
        ("ButtonRelease", "1", 0),
    ]


def test_a_held_character_of_no_layout_keeps_its_key_whatever_is_typed(told: Told) -> None:
    letters = distinct(80)

    events = told.by(KeyDown(key="я"), Type(text=letters), KeyUp(key="я"))

    assert events[0] == ("KeyPress", "U044F", 0)
    assert events[-1] == ("KeyRelease", "U044F", 0)
    assert sum(kind == "KeyPress" and name != "Shift_L" for kind, name, _ in events) == 81


def test_when_no_key_is_left_to_map_a_character_is_refused(told: Told, sandbox: Sandbox) -> None:
    perform = sandbox._living().input.perform
    for letter in distinct(19):
        perform(KeyDown(key=letter))
    for action in (KeyDown(key="ж"), Type(text="abc北"), Key(keys=("ctrl", "北"))):
        with pytest.raises(ActionRefusedError, match="19 keys are held: no key is left to map"):
            perform(action)
    perform(Finish())

    assert "U5317" in [name for name, _ in presses(told.by(Type(text="北")))]


def test_a_chord_is_pressed_in_order_and_let_go_in_reverse(told: Told) -> None:
    events = told.by(Key(keys=("ctrl", "shift", "S")), Key(keys=("S",)), Key(keys=("a",), count=2))

    assert [(kind, name) for kind, name, _ in events[:6]] == [
        ("KeyPress", "Control_L"), ("KeyPress", "Shift_L"), ("KeyPress", "S"),
        ("KeyRelease", "S"), ("KeyRelease", "Shift_L"), ("KeyRelease", "Control_L"),
    ]  # fmt: skip
    assert presses(events[6:]) == [("Shift_L", 0), ("S", SHIFT), ("a", 0), ("a", 0)]


def test_alt_and_tab_switch_windows_each_time(sandbox: Sandbox) -> None:
    """The window manager takes the keyboard over, and must still see them being let go of."""
    steps = [("launch", {"command": ["xterm", "-T", name]}) for name in ("one", "other")]
    seen = sandbox.reset(make_task(*steps))

    fronts = [seen.windows[-1].title]
    for _ in range(6):
        seen = sandbox.act(Key(keys=("alt", "tab")))
        fronts.append(next(window.title for window in seen.windows if window.is_focused))

    assert sorted(fronts[:2]) == ["one", "other"]
    assert fronts == (fronts[:2] * 4)[:7]


def test_each_of_the_named_keys_is_pressed_twenty_times(told: Told) -> None:
    names = {
        "enter": "Return", "tab": "Tab", "esc": "Escape", "up": "Up", "down": "Down",
        "left": "Left", "right": "Right", "kp_enter": "KP_Enter",
    }  # fmt: skip

    events = told.by(*(Key(keys=(name,), count=10) for name in names for _ in range(2)))

    assert presses(events) == [(keysym, 0) for keysym in names.values() for _ in range(20)]


def test_a_key_that_is_held_does_not_repeat(told: Told) -> None:
    assert presses(told.by(Key(keys=("9",), hold_ms=1200))) == [("9", 0)]


@pytest.mark.parametrize(
    ("setting", "group"),
    [("setxkbmap ru", 0), ("setxkbmap -layout us,ru -option grp:menu_toggle", 1)],
)
def test_another_layout_changes_no_key(sandbox: Sandbox, setting: str, group: int) -> None:
    told = Told(sandbox)
    shell(sandbox, setting)
    if group:
        sandbox.act(Key(keys=("menu",)))

    events = told.by(Key(keys=("/",)), Key(keys=("a",)), Key(keys=("ctrl", "a")), Type(text="Qя{"))

    names = [name for name, _ in presses(events) if name != "Shift_L"]
    assert names == ["slash", "a", "Control_L", "a", "Q", "U044F", "braceleft"]
    assert all(state & 0xF2 == 0 for _, state in presses(events))


def test_text_is_exact_though_capitals_are_locked(told: Told) -> None:
    events = told.by(Key(keys=("capslock",)), Type(text="aB"), Key(keys=("capslock",)))

    names = [name for name, _ in presses(events) if name not in ("Shift_L", "Caps_Lock")]
    assert names == ["a", "B"]


def test_the_pointer_may_rest_in_any_corner(sandbox: Sandbox) -> None:
    sandbox.reset(open_task("xterm"))
    root = sandbox._living().connection.root

    for x, y in ((0, 0), (1279, 0), (0, 719), (1279, 719), (640, 360)):
        sandbox.act(Move(x=x, y=y))
        assert (root.query_pointer().root_x, root.query_pointer().root_y) == (x, y)
    for action in (Click(x=0, y=0), Click(x=100, y=100), Type(text="x")):
        sandbox.act(action)


REFUSED: list[tuple[Action, str]] = [
    (Click(x=1280, y=1), "point 1280,1 is outside the screen of 1280x720"),
    (Move(x=-1, y=1), "point -1,1 is outside the screen"),
    (Click(x=1, y=1, button=10), "button is 10; 1 to 9 are possible"),
    (Click(x=1, y=1, count=0), "count is 0; 1 to 10 are possible"),
    (Scroll(x=1, y=1, dy=101), "scroll by 0,101; at most 100 notches"),
    (Drag(path=(Point(1, 1),)), "a drag has 2 to 500 points, not 1"),
    (Key(keys=()), "0 keys; 1 to 8 are possible"),
    (Key(keys=("ctrl", "hyper")), "no key is named 'hyper'"),
    (Key(keys=("a",), count=10, hold_ms=9000), "count times hold_ms is 90000"),
    (KeyUp(key="ctrl"), "key ctrl is not down"),
    (MouseUp(x=1, y=1), "button 1 is not down"),
    (Type(text="a\x07"), "cannot be typed: it is a control character"),
    (Click(x=1, y=1, keys=("shift",) * 9), "9 keys; 0 to 8 are possible"),
]


def test_what_makes_no_sense_is_refused_and_nothing_is_done(told: Told, sandbox: Sandbox) -> None:
    for action, reason in REFUSED:
        with pytest.raises(ActionRefusedError, match=re.escape(reason)):
            sandbox.act(action)
    sandbox.act(KeyDown(key="shift"))
    with pytest.raises(ActionRefusedError, match="key Shift_L is down"):
        sandbox.act(KeyDown(key="Shift_L"))
    sandbox.act(Finish())

    assert presses(told.by()) == []
    assert held(sandbox) == ([], 0)


def held(sandbox: Sandbox) -> tuple[list[int], int]:
    """The keys and the buttons that are down."""
    connection = sandbox._living().connection
    keys = [byte for byte in connection.display.query_keymap() if byte]
    return keys, connection.root.query_pointer().mask & 0x1F00


def press_and_leave(sandbox: Sandbox) -> None:
    """Press a key and a button behind the back of whoever drives the desktop."""
    devices = sandbox._living().input._devices
    devices.press_key(37)
    devices.press_button(1)
    devices._pressed.clear()


def test_what_an_interrupted_action_left_down_is_let_go_before_the_next(
    told: Told, sandbox: Sandbox
) -> None:
    press_and_leave(sandbox)
    assert held(sandbox) != ([], 0)

    events = told.by(Key(keys=("x",)))

    assert held(sandbox) == ([], 0)
    assert ("x", 0) in presses(events)


def test_a_key_that_cannot_be_let_go_loses_the_desktop(sandbox: Sandbox) -> None:
    sandbox.reset(open_task("xterm"))
    devices = sandbox._living().input._devices
    look: Callable[[], object] = devices.state
    press_and_leave(sandbox)
    stuck = look()
    devices.state = lambda: stuck  # type: ignore[method-assign,assignment,return-value]

    with pytest.raises(DesktopLostError, match="key 37, button 1 stays down"):
        sandbox.act(Key(keys=("x",)))
