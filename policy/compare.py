"""Whether two desktops stand in the same state, judged by their signatures. Pure.

docs/fidelity.md says what counts, and publishes every threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from envs_node.messages.desktop import Signature, WindowBox
from envs_node.policy.masks import PICTURE_MASKS, PictureMask, is_of

Comparison: TypeAlias = Literal["equal", "masked", "diverged"]
TILES_UNMASKED_MAX = 0
"""Tiles that may differ under no mask. One tile is a letter in a terminal."""
TILE_PX = 80
_TILE_BYTES = 4


def compare(
    expected: Signature, reached: Signature, masks: Sequence[PictureMask] = PICTURE_MASKS
) -> tuple[Comparison, str]:
    """Compare a state with the record of it.

    Returns:
        `equal` when everything is; `masked` when windows, their places, focus, elements and files
        are, and the picture differs in nothing but what a mask covers; else `diverged`. The second
        is the reason in words, empty for `equal`.
    """
    if expected == reached:
        return "equal", ""
    if expected.windows != reached.windows:
        return "diverged", f"windows are {_titles(reached)} instead of {_titles(expected)}"
    if expected.boxes and reached.boxes and expected.boxes != reached.boxes:
        return "diverged", _moved(expected, reached)
    if expected.focus != reached.focus:
        return "diverged", f"the focus is in {reached.focus!r} instead of {expected.focus!r}"
    if expected.files != reached.files:
        return "diverged", "the working files differ"
    if expected.elements != reached.elements:
        return "diverged", "the elements on the screen differ"
    if expected.columns != reached.columns or len(expected.tiles) != len(reached.tiles):
        return "diverged", "the screens are of different size"
    return _compare_pictures(expected, reached, masks)


def count_differing(first: bytes, second: bytes) -> tuple[int, int]:
    """How many tiles of two equally large pictures differ, and how many there are."""
    if len(first) != len(second):
        raise ValueError(f"tiles of {len(first)} and {len(second)} bytes cannot be compared")
    return len(differing_tiles(first, second)), len(range(0, len(first), _TILE_BYTES))


def differing_tiles(first: bytes, second: bytes) -> list[int]:
    """The numbers of the tiles that differ, row by row."""
    starts = range(0, len(first), _TILE_BYTES)
    return [
        at // _TILE_BYTES
        for at in starts
        if first[at : at + _TILE_BYTES] != second[at : at + _TILE_BYTES]
    ]


def _compare_pictures(
    expected: Signature, reached: Signature, masks: Sequence[PictureMask]
) -> tuple[Comparison, str]:
    if expected.frame == reached.frame:
        return "equal", ""  # one of them is of a time when less was written down
    differing = differing_tiles(expected.tiles, reached.tiles)
    covering = [_mask_over(tile, reached, masks) for tile in differing]
    open_tiles = covering.count(None)
    words = f"{len(differing)} of {len(reached.tiles) // _TILE_BYTES} tiles of the picture differ"
    if open_tiles > TILES_UNMASKED_MAX or not differing:
        return "diverged", words
    names = sorted({mask.name for mask in covering if mask is not None})
    return "masked", f"{words}, all under {', '.join(names)}"


def _mask_over(tile: int, signature: Signature, masks: Sequence[PictureMask]) -> PictureMask | None:
    """What covers a tile, of the masks of the windows that show; None if nothing does."""
    x, y = tile % signature.columns * TILE_PX, tile // signature.columns * TILE_PX
    titled = zip(signature.boxes, signature.windows, strict=False)
    for box, title in reversed(list(titled)):
        if box.is_hidden:
            continue
        for mask in masks:
            is_meant = is_of(box.app_class, mask.app_class) and title.endswith(mask.title)
            if is_meant and _meets(mask, box, x, y):
                return mask
        if _contains(box, x, y):
            return None  # what lies below this window does not show here
    return None


def _meets(mask: PictureMask, box: WindowBox, x: int, y: int) -> bool:
    left = box.x + (mask.left if mask.left >= 0 else box.width + mask.left)
    top = box.y + (mask.top if mask.top >= 0 else box.height + mask.top)
    right = box.x + (mask.right if mask.right > 0 else box.width + mask.right)
    bottom = box.y + (mask.bottom if mask.bottom > 0 else box.height + mask.bottom)
    return left < x + TILE_PX and right > x and top < y + TILE_PX and bottom > y


def _contains(box: WindowBox, x: int, y: int) -> bool:
    return (
        box.x <= x and box.y <= y
        and box.x + box.width >= x + TILE_PX and box.y + box.height >= y + TILE_PX
    )  # fmt: skip


def _moved(expected: Signature, reached: Signature) -> str:
    """Which window is elsewhere, or of another size or class."""
    pairs = zip(reached.windows, expected.boxes, reached.boxes, strict=False)
    for title, then, now in pairs:
        if then != now:
            return f"the window {title!r} is {_place(now)} instead of {_place(then)}"
    return f"{len(reached.boxes)} windows have a place instead of {len(expected.boxes)}"


def _place(box: WindowBox) -> str:
    hidden = ", hidden" if box.is_hidden else ""
    return f"{box.width}x{box.height} at {box.x},{box.y} ({box.app_class}{hidden})"


def _titles(signature: Signature) -> str:
    return ", ".join(map(repr, signature.windows)) or "none"
