"""A strip shows each state twice, what was done, and exactly where the two differ."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from envs_node.deploy.strip import (
    CELL_PX,
    THUMB_PX,
    StripRow,
    boxes_of,
    draw_strip,
    pixels_differ,
)
from envs_node.messages.actions import Click, Drag, Key, Point, Type

WIDTH, HEIGHT = 960, 540
GREY, RED, RING = (120, 120, 120), (255, 0, 0), (230, 0, 120)


def png(spots: tuple[tuple[int, int, int, int], ...] = ()) -> bytes:
    """A grey screen with black boxes (left, top, right, bottom)."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), GREY)
    for spot in spots:
        picture.paste((0, 0, 0), spot)
    packed = BytesIO()
    picture.save(packed, "PNG")
    return packed.getvalue()


def row(**more: object) -> StripRow:
    fields: dict[str, object] = {"title": "1. x", "outcome": "equal", "drift": "", **more}
    return StripRow(**fields)  # type: ignore[arg-type]


def drawn(*rows: StripRow) -> np.ndarray:
    packed = draw_strip(rows, heading="b#1", ending=("verdict then: success 1",))
    return np.asarray(Image.open(BytesIO(packed)).convert("RGB")).astype(int)


def near(strip: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """Where the strip has about this colour; a palette moves colours a little."""
    found: np.ndarray = np.abs(strip - colour).max(axis=2) < 25
    return found


def panels(strip: np.ndarray) -> list[np.ndarray]:
    """The three columns of a strip."""
    step = (strip.shape[1] - 8) // 3
    return [strip[:, 4 + n * step : 4 + (n + 1) * step] for n in range(3)]


def test_what_differs_is_red_in_the_third_panel_alone() -> None:
    strip = drawn(row(then=png(), now=png(((200, 100, 400, 300),)), outcome="diverged"))

    then, now, heat = panels(strip)
    assert near(heat, RED).sum() == pytest.approx(100 * 100, rel=0.05)
    assert not near(then, RED).any()
    assert not near(now, RED).any()


def test_equal_pictures_have_no_heat() -> None:
    assert not near(drawn(row(then=png(), now=png())), RED).any()


@pytest.mark.parametrize(
    "action", [Click(x=480, y=270), Drag(path=(Point(100, 100), Point(480, 270)))]
)
def test_a_ring_shows_where_it_was_clicked(action: Click | Drag) -> None:
    then, now, heat = panels(drawn(row(then=png(), now=png(), action=action)))

    for panel in (then, now):
        ys, xs = np.nonzero(near(panel, RING))
        assert xs.max() == pytest.approx(THUMB_PX / 2 + 9 + 4, abs=6)
        assert ys.max() - ys.min() >= 16
    assert not near(heat, RING).any()


@pytest.mark.parametrize("action", [Type(text="hi"), Key(keys=("ctrl", "s"))])
def test_what_was_typed_is_written_on_the_picture(action: Type | Key) -> None:
    with_words, without = (drawn(row(then=png(), now=png(), action=a)) for a in (action, None))

    assert near(with_words, RING).sum() > 50
    assert not near(without, RING).any()


def test_a_picture_that_was_not_kept_leaves_a_panel_that_says_so() -> None:
    lacks = drawn(row(now=png(), lack="this picture was not kept"))
    then, now, heat = panels(lacks)

    assert near(then, GREY).mean() < 0.02
    assert near(now, GREY).mean() > 0.5
    assert not near(heat, RED).any()
    assert (drawn(row(now=png(), lack="another reason")) != lacks).any()


def test_a_strip_grows_by_a_row_a_state_and_keeps_its_width() -> None:
    one, ten = drawn(row(then=png(), now=png())), drawn(*[row(then=png(), now=png())] * 10)

    assert one.shape[1] == ten.shape[1] > 3 * THUMB_PX
    band = (ten.shape[0] - one.shape[0]) / 9
    assert THUMB_PX * HEIGHT / WIDTH < band < THUMB_PX * HEIGHT / WIDTH + 60


def test_pictures_of_different_size_are_not_compared() -> None:
    other = BytesIO()
    Image.new("RGB", (640, 480), GREY).save(other, "PNG")

    assert pixels_differ(png(), other.getvalue()) is None
    assert not near(drawn(row(then=png(), now=other.getvalue())), RED).any()


def test_the_share_of_differing_pixels_is_exact() -> None:
    share = pixels_differ(png(), png(((0, 0, 96, 54),)))

    assert share == pytest.approx(0.01)


def test_a_strip_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least the row of the start"):
        draw_strip((), heading="", ending=())


@given(
    st.lists(
        st.tuples(st.integers(0, 199), st.integers(0, 129), st.integers(1, 60), st.integers(1, 60)),
        max_size=6,
    )
)
def test_boxes_hold_everything_that_differs_and_are_apart(
    spots: list[tuple[int, int, int, int]],
) -> None:
    mask = np.zeros((130, 200), dtype=bool)
    for x, y, width, height in spots:
        mask[y : y + height, x : x + width] = True

    boxes = boxes_of(mask)

    covered = np.zeros_like(mask)
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= 200
        assert 0 <= top < bottom <= 130
        assert left % CELL_PX == top % CELL_PX == 0
        assert mask[top:bottom, left:right].any()
        covered[top:bottom, left:right] = True
    assert not (mask & ~covered).any()
