"""What a dialect can say of an action is read back as that action; nothing else is an action."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from envs_node.messages.keys import KEYSYMS, canonical_chord
from envs_node.policy.dialects.anthropic import format_anthropic, parse_anthropic
from envs_node.policy.dialects.computer_13 import format_computer_13, parse_computer_13
from envs_node.policy.dialects.openai import format_openai, parse_openai
from envs_node.policy.dialects.text import DialectError, NotExpressibleError, without_closing_tags

Parse = Callable[[Any, Point], Action]
Format = Callable[[Action], list[dict[str, object]]]
DIALECTS: dict[str, tuple[Parse, Format]] = {
    "computer_13": (parse_computer_13, format_computer_13),
    "anthropic": (parse_anthropic, format_anthropic),
    "openai": (
        lambda fields, pointer: parse_openai(fields),
        lambda action: [format_openai(action)],
    ),
}
pixels = st.integers(0, 4000)
points = st.builds(Point, x=pixels, y=pixels)
keys = st.sampled_from([*KEYSYMS, *"aZ+-/é"])
chords = st.lists(keys, max_size=3, unique=True).map(lambda names: canonical_chord(tuple(names)))
some = st.lists(keys, min_size=1, max_size=3, unique=True).map(
    lambda names: canonical_chord(tuple(names))
)
texts = st.text(st.characters(exclude_categories=["Cs"])).map(without_closing_tags)
buttons = st.integers(1, 9)
notches = st.integers(-50, 50)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Click, x=pixels, y=pixels, button=buttons, count=st.integers(1, 4), keys=chords),
    st.builds(Move, x=pixels, y=pixels, keys=chords),
    st.builds(MouseDown, x=pixels, y=pixels, button=buttons),
    st.builds(MouseUp, x=pixels, y=pixels, button=buttons),
    st.builds(
        Drag, path=st.lists(points, min_size=2, max_size=4).map(tuple), button=buttons, keys=chords
    ),
    st.builds(Scroll, x=pixels, y=pixels, dx=notches, dy=notches, keys=chords),
    st.builds(Type, text=texts),
    st.builds(Key, keys=some, count=st.integers(1, 3), hold_ms=st.integers(0, 5000)),
    st.builds(KeyDown, key=keys),
    st.builds(KeyUp, key=keys),
    st.builds(Wait, wait_ms=st.integers(0, 9000)),
    st.builds(Finish),
    st.builds(Fail),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
HOLDS_NO_TIME = ("openai", "computer_13")


def read_back(parse: Parse, said: list[dict[str, object]]) -> Action:
    """What is read of some actions, the first of which may but move the pointer."""
    pointer = Point(7, 7)
    found: Action = Wait()
    for fields in said:
        found = parse(json.loads(json.dumps(fields)), pointer)
        if isinstance(found, Move):
            pointer = Point(found.x, found.y)
    return found


@pytest.mark.parametrize("name", DIALECTS)
@given(action=actions)
def test_what_can_be_said_is_read_back(name: str, action: Action) -> None:
    parse, write = DIALECTS[name]
    try:
        said = write(action)
    except NotExpressibleError:
        return

    if isinstance(action, Wait) and name in HOLDS_NO_TIME:
        action = Wait()
    assert read_back(parse, said) == action


@pytest.mark.parametrize("name", DIALECTS)
@given(
    kind=st.sampled_from(
        [
            "CLICK",
            "SCROLL",
            "HOTKEY",
            "TYPING",
            "KEY_DOWN",
            "DRAG_TO",
            "click",
            "scroll",
            "key",
            "type",
            "drag",
            "keypress",
        ]
    ),
    fields=st.dictionaries(
        st.sampled_from(
            [
                "x",
                "y",
                "dx",
                "dy",
                "text",
                "keys",
                "key",
                "path",
                "button",
                "coordinate",
                "scroll_x",
            ]
        ),
        json_values,
    ),
)
def test_any_object_is_an_action_or_is_refused(
    name: str, kind: str, fields: dict[str, object]
) -> None:
    parse, _ = DIALECTS[name]
    tags = {"action_type": kind, "type": kind, "action": kind}

    try:
        action = parse({**fields, **tags}, Point(0, 0))
    except DialectError:
        return

    assert isinstance(action, Action)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("computer_13", {"action_type": "SCROLL", "parameters": {"dx": 3, "dy": 5}}),
        ("openai", {"type": "scroll", "x": 7, "y": 7, "scroll_x": 300, "scroll_y": -500}),
    ],
)
def test_a_scroll_up_and_right_is_one_in_every_dialect(name: str, fields: dict[str, Any]) -> None:
    parse, _ = DIALECTS[name]

    assert parse(fields, Point(7, 7)) == Scroll(x=7, y=7, dx=3, dy=-5)


@pytest.mark.parametrize(("way", "dx", "dy"), [("up", 0, -2), ("down", 0, 2), ("right", 2, 0)])
def test_a_scroll_that_names_its_way_goes_that_way(way: str, dx: int, dy: int) -> None:
    fields = {"action": "scroll", "scroll_direction": way, "scroll_amount": 2}

    assert parse_anthropic(fields, Point(1, 2)) == Scroll(x=1, y=2, dx=dx, dy=dy)


def test_an_action_at_a_coordinate_of_zero_is_one_there() -> None:
    for x, y in ((0, 540), (960, 0), (0, 0)):
        fields = {"action_type": "CLICK", "parameters": {"x": x, "y": y}}
        assert parse_computer_13(fields, Point(9, 9)) == Click(x=x, y=y)
        left = {"action": "left_click", "coordinate": [x, y]}
        assert parse_anthropic(left, Point(9, 9)) == Click(x=x, y=y)


def test_an_unknown_key_is_refused_for_that_candidate_alone() -> None:
    with pytest.raises(DialectError, match="no key is named 'hyper'"):
        parse_computer_13({"action_type": "PRESS", "parameters": {"key": "hyper"}}, Point(0, 0))


def test_closing_tags_of_the_protocol_are_cut_and_those_of_the_text_are_kept() -> None:
    letter = "Dear team,\nBye\n</content>\n</tool_call>"

    assert without_closing_tags(letter) == "Dear team,\nBye"
    assert without_closing_tags("<b>x</b>") == "<b>x</b>"
    assert without_closing_tags("a <b>x</b> c") == "a <b>x</b> c"
