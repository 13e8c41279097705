"""Comparing the state of two desktops."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.desktop import Signature, WindowBox
from envs_node.policy.compare import compare, count_differing
from envs_node.policy.masks import ELEMENT_MASKS, PICTURE_MASKS, PictureMask, is_of

TILES, COLUMNS = 100, 10
BOX = WindowBox("notes Notes", 0, 0, 800, 800)
MASK = PictureMask(name="the clock", app_class="notes", left=-160, bottom=80, reason="it ticks")
"""Over the last two tiles of the first row."""


def signature(tiles: bytes = b"\0" * 4 * TILES, **changes: object) -> Signature:
    fields = {
        "frame": tiles.hex(), "tiles": tiles, "columns": COLUMNS, "windows": ("Notes",),
        "focus": "Notes", "elements": "e", "files": "h", "boxes": (BOX,),
    } | changes  # fmt: skip
    return Signature(**fields)  # type: ignore[arg-type]  # fields are checked by the codec


def lit(changed: set[int]) -> bytes:
    """Tiles of which these are unlike those of `signature()`."""
    tiles = bytearray(4 * TILES)
    for tile in changed:
        tiles[4 * tile] = 1
    return bytes(tiles)


@given(st.binary(min_size=4 * TILES, max_size=4 * TILES))
def test_a_state_equals_itself(tiles: bytes) -> None:
    assert compare(signature(tiles), signature(tiles)) == ("equal", "")


@given(st.sets(st.integers(0, TILES - 1)))
def test_no_tile_may_differ_but_under_a_mask(changed: set[int]) -> None:
    verdict, reason = compare(signature(), signature(lit(changed)), (MASK,))

    expected = "equal" if not changed else "masked" if changed <= {8, 9} else "diverged"
    words = f"{len(changed)} of 100 tiles of the picture differ"
    assert verdict == expected
    assert reason == {"equal": "", "masked": f"{words}, all under the clock"}.get(expected, words)


@given(st.integers(0, TILES - 1), st.sampled_from(PICTURE_MASKS or (MASK,)))
def test_a_mask_is_of_its_own_application_alone(tile: int, mask: PictureMask) -> None:
    stranger = (msgspec.structs.replace(BOX, app_class="stranger"),)

    then, now = signature(boxes=stranger), signature(lit({tile}), boxes=stranger)

    assert compare(then, now, (mask,))[0] == "diverged"


def test_a_window_hides_the_mask_of_another_below_it() -> None:
    above = WindowBox("stranger", 600, 0, 400, 400)
    titles = ("Notes", "Other")

    def seen(above: WindowBox, *changed: int) -> Signature:
        return signature(lit(set(changed)), boxes=(BOX, above), windows=titles)

    assert compare(seen(above), seen(above, 8), (MASK,))[0] == "diverged"
    hidden = msgspec.structs.replace(above, is_hidden=True)
    assert compare(seen(hidden), seen(hidden, 8), (MASK,))[0] == "masked"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"windows": ()}, "windows are none instead of 'Notes'"),
        ({"focus": "Other"}, "the focus is in 'Other' instead of 'Notes'"),
        ({"files": "x"}, "the working files differ"),
        ({"elements": "x"}, "the elements on the screen differ"),
        ({"columns": 5, "frame": ""}, "the screens are of different size"),
        ({"frame": ""}, "0 of 100 tiles of the picture differ"),
    ],
)
def test_anything_else_that_differs_diverges(changes: dict[str, object], reason: str) -> None:
    assert compare(signature(), signature(**changes)) == ("diverged", reason)


@given(
    st.sampled_from(["x", "y", "width", "height"]),
    st.integers(-2000, 2000).filter(bool),
)
def test_a_window_that_moved_by_one_pixel_diverges(side: str, by: int) -> None:
    moved = msgspec.structs.replace(BOX, **{side: getattr(BOX, side) + by})

    verdict, reason = compare(signature(), signature(boxes=(moved,)))

    assert verdict == "diverged"
    assert reason.startswith("the window 'Notes' is ")


def test_a_window_that_is_hidden_or_of_another_program_diverges() -> None:
    for change in ({"is_hidden": True}, {"app_class": "other"}):
        other = msgspec.structs.replace(BOX, **change)  # type: ignore[arg-type]
        assert compare(signature(), signature(boxes=(other,)))[0] == "diverged"


def test_a_record_from_before_windows_had_places_is_compared_without() -> None:
    assert compare(signature(boxes=()), signature()) == ("equal", "")
    assert compare(signature(boxes=()), signature(files="x"))[0] == "diverged"


@given(st.binary(min_size=40, max_size=40), st.binary(min_size=40, max_size=40))
def test_counting_differences_is_symmetric(first: bytes, second: bytes) -> None:
    assert count_differing(first, second) == count_differing(second, first)


def test_tiles_of_different_number_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match="4 and 8 bytes"):
        count_differing(b"\0" * 4, b"\0" * 8)


def test_every_mask_has_a_name_of_its_own_a_class_and_a_reason() -> None:
    masks = (*PICTURE_MASKS, *ELEMENT_MASKS)

    assert len({mask.name for mask in masks}) == len(masks)
    assert all(len(mask.reason) > 20 and mask.app_class == mask.app_class.lower() for mask in masks)
    assert is_of("Navigator Chromium", "chromium")
    assert not is_of("", "chromium")


@pytest.mark.parametrize("mask", PICTURE_MASKS, ids=lambda mask: mask.name.replace(" ", "-"))
def test_each_mask_covers_something_and_leaves_most_of_its_window(mask: PictureMask) -> None:
    box = WindowBox(mask.app_class, 0, 0, 800, 800)
    titled = {"boxes": (box,), "windows": (f"x{mask.title}",)}

    covered = [
        tile
        for tile in range(TILES)
        if compare(signature(**titled), signature(lit({tile}), **titled), (mask,))[0] == "masked"
    ]

    assert covered
    assert mask.title or len(covered) <= TILES // 8
