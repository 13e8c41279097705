"""Comparing the state of two desktops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.desktop import Signature
from envs_node.policy.compare import MASK_SHARE_MAX, compare, count_differing

TILES = 100


def signature(tiles: bytes = b"\0" * 4 * TILES, **changes: object) -> Signature:
    fields = {
        "frame": tiles.hex(), "tiles": tiles, "columns": 10, "windows": ("Notes",),
        "focus": "Notes", "elements": "e", "files": "h",
    } | changes  # fmt: skip
    return Signature(**fields)  # type: ignore[arg-type]  # fields are checked by the codec


@given(st.binary(min_size=4 * TILES, max_size=4 * TILES))
def test_a_state_equals_itself(tiles: bytes) -> None:
    assert compare(signature(tiles), signature(tiles)) == ("equal", "")


@given(st.sets(st.integers(0, TILES - 1)))
def test_pictures_alone_may_differ_in_two_tiles_of_a_hundred(changed: set[int]) -> None:
    tiles = bytearray(4 * TILES)
    for tile in changed:
        tiles[4 * tile] = 1

    verdict, reason = compare(signature(), signature(bytes(tiles)))

    limit = MASK_SHARE_MAX * TILES
    expected = "equal" if not changed else "masked" if len(changed) <= limit else "diverged"
    assert verdict == expected
    assert reason == ("" if not changed else f"{len(changed)} of 100 tiles of the picture differ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"windows": ()}, "windows are none instead of 'Notes'"),
        ({"focus": "Other"}, "the focus is in 'Other' instead of 'Notes'"),
        ({"files": "x"}, "the working files differ"),
        ({"elements": "x"}, "the elements on the screen differ"),
        ({"columns": 5}, "the screens are of different size"),
    ],
)
def test_anything_else_that_differs_diverges(changes: dict[str, object], reason: str) -> None:
    assert compare(signature(), signature(**changes)) == ("diverged", reason)


@given(st.binary(min_size=40, max_size=40), st.binary(min_size=40, max_size=40))
def test_counting_differences_is_symmetric(first: bytes, second: bytes) -> None:
    assert count_differing(first, second) == count_differing(second, first)


def test_tiles_of_different_number_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match="4 and 8 bytes"):
        count_differing(b"\0" * 4, b"\0" * 8)
