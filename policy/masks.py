"""What may differ between two equal states, by window class, and why. docs/fidelity.md shows it.

Whatever no mask covers must be equal to the last pixel: where an application tells nothing of
itself, one tile is all that tells one letter from another.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class PictureMask(msgspec.Struct, frozen=True, kw_only=True):
    """A region of a window whose pixels may differ.

    Sides are in px from the window's left and upper edge; below 0 (and 0 itself for `right` and
    `bottom`) from its right and lower one. A tile of the picture counts as covered when any of it
    is.
    """

    name: str
    app_class: str
    """Beginning of a word of the window's class, in lower case."""
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0
    reason: str


class ElementMask(msgspec.Struct, frozen=True, kw_only=True):
    """What of some elements does not count: it is left out of the signature's digest."""

    name: str
    app_class: str
    """As of a `PictureMask`: of the topmost window that the element's middle lies in."""
    roles: tuple[str, ...]
    part: Literal["whole", "name", "value", "states"]
    reason: str


PICTURE_MASKS: tuple[PictureMask, ...] = ()
ELEMENT_MASKS: tuple[ElementMask, ...] = ()


def is_of(app_class: str, wanted: str) -> bool:
    """Whether a window's class, as `WM_CLASS` words it, is one that a mask is for."""
    return any(word.startswith(wanted) for word in app_class.lower().split())
