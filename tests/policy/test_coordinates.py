"""Clicks land where the model meant, whatever the picture was that it saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.actions import Point
from envs_node.policy.coordinates import CoordinateSpace, SentFrame, smart_resize, to_screen

FULL_HD = SentFrame(screen=(1920, 1080), sent=(1920, 1080))
sides = st.integers(200, 4000)


@pytest.mark.parametrize(
    ("screen", "sent", "said", "meant"),
    [
        ((1440, 3040), (606, 1280), (303, 640), Point(720, 1520)),
        ((1920, 1080), (1280, 720), (640, 360), Point(960, 540)),
    ],
)
def test_a_click_on_a_shrunk_picture_is_scaled_back(
    screen: tuple[int, int], sent: tuple[int, int], said: tuple[int, int], meant: Point
) -> None:
    assert to_screen(*said, "absolute", SentFrame(screen=screen, sent=sent)) == meant


@pytest.mark.parametrize(
    ("space", "said", "meant"),
    [
        ("absolute", (880, 440), Point(880, 440)),
        ("rel1000", (880, 440), Point(1690, 475)),
        ("rel999", (999, 0), Point(1919, 0)),
        ("rel1", (0.88, 0.44), Point(1690, 475)),
    ],
)
def test_the_same_numbers_are_other_pixels_in_each_space(
    space: CoordinateSpace, said: tuple[float, float], meant: Point
) -> None:
    assert to_screen(*said, space, FULL_HD) == meant


def test_a_model_that_counts_in_its_resized_picture_must_say_how_large_it_is() -> None:
    with pytest.raises(ValueError, match="must say how large"):
        to_screen(1, 1, "resized", FULL_HD)


@pytest.mark.parametrize(
    ("size", "pixels_max", "resized"),
    [
        ((1920, 1080), 16384 * 28 * 28, (1932, 1092)),
        ((1920, 1080), 1280 * 28 * 28, (1316, 728)),
    ],
)
def test_pictures_are_resized_as_the_processor_does(
    size: tuple[int, int], pixels_max: int, resized: tuple[int, int]
) -> None:
    assert smart_resize(*size, factor=28, pixels_min=3136, pixels_max=pixels_max) == resized


@given(sides, sides, st.floats(0, 1), st.floats(0, 1))
def test_small_and_large_pictures_ground_within_three_pixels(
    width: int, height: int, right: float, down: float
) -> None:
    resized = smart_resize(width, height, factor=28, pixels_min=3136, pixels_max=1280 * 28 * 28)
    frame = SentFrame(screen=(width, height), sent=(width, height), resized=resized)
    said = round(right * (resized[0] - 1)), round(down * (resized[1] - 1))

    found = to_screen(*said, "resized", frame)

    assert abs(found.x - said[0] * width / resized[0]) <= 1
    assert abs(found.y - said[1] * height / resized[1]) <= 1


@given(st.integers(0, 1919), st.integers(0, 1079))
def test_a_pixel_survives_the_way_through_a_resized_picture_within_two(x: int, y: int) -> None:
    resized = smart_resize(1920, 1080, factor=28, pixels_min=3136, pixels_max=1280 * 28 * 28)
    frame = SentFrame(screen=(1920, 1080), sent=(1920, 1080), resized=resized)
    said = round(x * resized[0] / 1920), round(y * resized[1] / 1080)

    found = to_screen(*said, "resized", frame)

    assert abs(found.x - x) <= 2
    assert abs(found.y - y) <= 2
