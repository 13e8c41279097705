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
    title: str = ""
    """The end of the window's title; every window of the class unless given."""
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
    names: str = ""
    """What the whole name must match, as a regular expression; any name unless given."""
    part: Literal["whole", "name", "value", "states"]
    reason: str


PICTURE_MASKS: tuple[PictureMask, ...] = (
    PictureMask(
        name="the times of a file in Thunar", app_class="thunar", title=" - Properties", left=100,
        reason="The dialog tells when a file was made, changed and read, to the second: each "
        "desktop makes its files anew. All else there is told by its elements.",
    ),
    PictureMask(
        name="the scroll bar of Chromium", app_class="chromium", left=-20,
        reason="The rounded end of the thumb is drawn a shade lighter or darker, 4 by 2 px. "
        "Content that is scrolled differs beside it.",
    ),
    PictureMask(
        name="the buttons at the end of Chromium's address bar", app_class="chromium",
        left=-100, top=40, right=-60, bottom=70,
        reason="The corner of a button that was lit a moment ago keeps a shade of it, 4 by 5 px. "
        "What the buttons are is told by their elements.",
    ),
    PictureMask(
        name="the status of Thunderbird", app_class="thunderbird", left=44, top=-24, right=480,
        reason="It tells what goes on just now, and stays for as long as it likes. Folders and "
        "mails beside it are told by their elements.",
    ),
)  # fmt: skip
ELEMENT_MASKS: tuple[ElementMask, ...] = (
    ElementMask(
        name="labels with a file's times in Thunar", app_class="thunar", roles=("label",),
        names=r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", part="name",
        reason="As of the picture of the same dialog: each desktop makes its files anew.",
    ),
    ElementMask(
        name="words of Thunderbird's status", app_class="thunderbird", roles=("label",),
        names="\u200b|Done|Loading Message…|Opening folder.*", part="whole",
        reason="As of the picture of the same: they come and go by themselves.",
    ),
    ElementMask(
        name="the names of Chromium's tabs", app_class="chromium", roles=("page tab",), part="name",
        reason="They tell from some moment on how much memory the page takes. The shown page's "
        "name is in the window's title; those of the others are in the picture.",
    ),
)  # fmt: skip


def is_of(app_class: str, wanted: str) -> bool:
    """Whether a window's class, as `WM_CLASS` words it, is one that a mask is for."""
    return any(word.startswith(wanted) for word in app_class.lower().split())
