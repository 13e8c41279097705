"""Two samples of one intention get one name, and two intentions get two."""

from __future__ import annotations

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
    Target,
    Type,
    Wait,
)
from envs_node.policy.fingerprint import FingerprintMode, canonical_path, fingerprint

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
pixels = st.integers(-10, 8000)
chords = st.lists(st.sampled_from(["ctrl", "shift", "alt", "super", "S", "f2"]), max_size=4).map(
    tuple
)
points = st.builds(Point, x=pixels, y=pixels)
targets = st.none() | st.builds(Target, role=texts, name=texts)
notches = st.integers(-20, 20)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        Click,
        x=pixels,
        y=pixels,
        button=st.integers(1, 9),
        count=st.integers(1, 3),
        keys=chords,
        target=targets,
    ),
    st.builds(Move, x=pixels, y=pixels, keys=chords),
    st.builds(MouseDown, x=pixels, y=pixels, button=st.integers(1, 9)),
    st.builds(MouseUp, x=pixels, y=pixels, button=st.integers(1, 9)),
    st.builds(KeyDown, key=texts),
    st.builds(KeyUp, key=texts),
    st.builds(Drag, path=st.lists(points, max_size=4).map(tuple), keys=chords),
    st.builds(Type, text=texts),
    st.builds(Scroll, x=pixels, y=pixels, dx=notches, dy=notches, keys=chords),
    st.builds(Key, keys=chords, count=st.integers(1, 3), hold_ms=st.integers(0, 3000)),
    st.builds(Wait, wait_ms=st.integers(0, 5000)),
    st.builds(Finish, answer=texts),
    st.builds(Fail, reason=texts),
)
modes: st.SearchStrategy[FingerprintMode] = st.sampled_from(("element", "grid"))
OK = Target(role="push button", name="OK")


@given(actions, modes)
def test_every_action_has_a_name_and_it_is_stable(action: Action, mode: FingerprintMode) -> None:
    name = fingerprint(action, mode)

    assert name == fingerprint(action, mode)
    assert name.split()[0] == type(action).__name__.lower()


@given(pixels, pixels, pixels, pixels)
def test_jittered_clicks_on_one_element_are_one_in_element_mode(
    x: int, y: int, other_x: int, other_y: int
) -> None:
    first, second = Click(x=x, y=y, target=OK), Click(x=other_x, y=other_y, target=OK)

    assert fingerprint(first) == fingerprint(second)


@given(pixels, pixels, targets)
def test_grid_mode_sees_cells_only(x: int, y: int, target: Target | None) -> None:
    corner = Click(x=x // 50 * 50, y=y // 50 * 50)

    assert fingerprint(Click(x=x, y=y, target=target), "grid") == fingerprint(corner, "grid")


def test_clicks_across_a_border_of_the_grid_differ_in_grid_mode() -> None:
    left, right = Click(x=49, y=10, target=OK), Click(x=50, y=10, target=OK)

    assert fingerprint(left, "grid") != fingerprint(right, "grid")
    assert fingerprint(left, "element") == fingerprint(right, "element")


def test_an_element_without_a_name_falls_back_to_the_grid() -> None:
    nameless = Click(x=120, y=10, target=Target(role="text", name=""))

    assert fingerprint(nameless) == fingerprint(Click(x=149, y=49))


@pytest.mark.parametrize(
    "other",
    [
        Click(x=10, y=10, button=3, target=OK),
        Click(x=10, y=10, count=2, target=OK),
        Click(x=10, y=10, keys=("ctrl",), target=OK),
        Click(x=10, y=10, target=Target(role="menu item", name="OK")),
        Move(x=10, y=10),
    ],
)
def test_another_intention_on_the_same_spot_has_another_name(other: Action) -> None:
    assert fingerprint(other) != fingerprint(Click(x=10, y=10, target=OK))


@given(st.permutations(["ctrl", "shift", "alt"]))
def test_modifiers_have_no_order_and_no_case(held: list[str]) -> None:
    keys = tuple(key.upper() for key in held)

    assert fingerprint(Key(keys=(*keys, "S"))) == fingerprint(Key(keys=(*sorted(held), "s")))
    assert fingerprint(Click(x=1, y=1, keys=keys)) == fingerprint(
        Click(x=1, y=1, keys=tuple(sorted(held)))
    )


def test_a_key_has_one_name_in_every_spelling_and_a_capital_is_one_with_shift() -> None:
    assert fingerprint(Key(keys=("Page_Down",))) == fingerprint(Key(keys=("pgdn",)))
    assert fingerprint(Key(keys=("escape",))) == fingerprint(Key(keys=("esc",)))
    assert fingerprint(KeyDown(key="Control_L")) == fingerprint(KeyDown(key="ctrl"))
    assert fingerprint(Key(keys=("S",))) == fingerprint(Key(keys=("shift", "s")))
    assert fingerprint(Key(keys=("S",))) != fingerprint(Key(keys=("s",)))


def test_a_key_is_named_by_how_often_and_whether_it_is_held_and_not_how_long() -> None:
    held = fingerprint(Key(keys=("w",), hold_ms=500))

    assert held == fingerprint(Key(keys=("w",), hold_ms=2500))
    assert len({held, *(fingerprint(Key(keys=("w",), count=count)) for count in (1, 2))}) == 3
    assert fingerprint(KeyDown(key="w")) != fingerprint(KeyUp(key="w"))


def test_a_button_that_is_kept_down_is_named_by_its_cell() -> None:
    down = fingerprint(MouseDown(x=10, y=10))

    assert down == fingerprint(MouseDown(x=49, y=49))
    assert len({down, fingerprint(MouseUp(x=10, y=10)), fingerprint(MouseDown(x=60, y=10))}) == 3


def test_other_keys_of_a_chord_keep_their_order() -> None:
    assert fingerprint(Key(keys=("ctrl", "k", "s"))) != fingerprint(Key(keys=("ctrl", "s", "k")))


def test_text_is_composed_and_its_spaces_are_one() -> None:
    decomposed, composed = Type(text="  cafe\u0301   noir "), Type(text="caf\u00e9 noir")

    assert fingerprint(decomposed) == fingerprint(composed)
    assert fingerprint(Type(text="Cafe")) != fingerprint(Type(text="cafe"))


def test_a_newline_is_a_key_and_no_space() -> None:
    names = {fingerprint(Type(text=text)) for text in ("ls", "ls\n", "l s", "l\ns")}

    assert len(names) == 4


def test_a_drag_is_named_by_its_ends_and_by_what_is_held() -> None:
    ends = (Point(10, 10), Point(210, 10))
    detour = (ends[0], Point(100, 400), Point(220, 20))

    assert fingerprint(Drag(path=ends)) == fingerprint(Drag(path=detour))
    assert fingerprint(Drag(path=ends)) != fingerprint(Drag(path=ends[::-1]))
    assert fingerprint(Drag(path=ends)) != fingerprint(Drag(path=ends, keys=("ctrl",)))


def test_a_scroll_is_named_by_its_direction_and_not_by_its_notches() -> None:
    down = fingerprint(Scroll(x=1, y=1, dy=3))

    assert down == fingerprint(Scroll(x=2, y=2, dy=9))
    assert down != fingerprint(Scroll(x=1, y=1, dy=-3))
    assert down != fingerprint(Scroll(x=1, y=1, dx=3))
    assert down != fingerprint(Scroll(x=1, y=1, dy=3, keys=("ctrl",)))


@given(st.lists(st.tuples(texts, st.booleans()), max_size=8))
def test_the_canonical_path_has_just_the_steps_that_changed(steps: list[tuple[str, bool]]) -> None:
    path = canonical_path(tuple(n for n, _ in steps), tuple(c for _, c in steps))

    assert path == tuple(name for name, changed in steps if changed)
