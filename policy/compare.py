"""Whether two desktops stand in the same state, judged by their signatures. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from envs_node.messages.desktop import Signature

Comparison: TypeAlias = Literal["equal", "masked", "diverged"]
MASK_SHARE_MAX = 0.02
"""Share of the tiles that may differ when all else is equal: a caret, a tooltip, a glow."""
_TILE_BYTES = 4


def compare(expected: Signature, reached: Signature) -> tuple[Comparison, str]:
    """Compare a state with the record of it.

    Returns:
        `equal` when everything is; `masked` when windows, focus, elements and files are, and the
        picture differs in at most 2 % of its tiles; else `diverged`. The second is the reason in
        words, empty for `equal`.
    """
    if expected == reached:
        return "equal", ""
    if expected.windows != reached.windows:
        return "diverged", f"windows are {_titles(reached)} instead of {_titles(expected)}"
    if expected.focus != reached.focus:
        return "diverged", f"the focus is in {reached.focus!r} instead of {expected.focus!r}"
    if expected.files != reached.files:
        return "diverged", "the working files differ"
    if expected.elements != reached.elements:
        return "diverged", "the elements on the screen differ"
    if expected.columns != reached.columns or len(expected.tiles) != len(reached.tiles):
        return "diverged", "the screens are of different size"
    differing, total = count_differing(expected.tiles, reached.tiles)
    words = f"{differing} of {total} tiles of the picture differ"
    if differing <= MASK_SHARE_MAX * total:
        return "masked", words
    return "diverged", words


def count_differing(first: bytes, second: bytes) -> tuple[int, int]:
    """How many tiles of two equally large pictures differ, and how many there are."""
    if len(first) != len(second):
        raise ValueError(f"tiles of {len(first)} and {len(second)} bytes cannot be compared")
    starts = range(0, len(first), _TILE_BYTES)
    differing = sum(first[at : at + _TILE_BYTES] != second[at : at + _TILE_BYTES] for at in starts)
    return differing, len(starts)


def _titles(signature: Signature) -> str:
    return ", ".join(map(repr, signature.windows)) or "none"
