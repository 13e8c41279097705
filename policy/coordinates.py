"""Coordinates: from what a model says of the picture it was sent to a pixel of the screen.

The scale comes from the frame that was sent and from nothing else: there is no default.
For backends of models that see, of which there is none yet: what `policy.dialects` reads counts in
pixels of the picture that was sent, and its backend brings each point to the screen from here.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envs_node.messages.actions import Point

CoordinateSpace: TypeAlias = Literal["absolute", "resized", "rel1", "rel999", "rel1000"]
"""`absolute`: pixels of the picture that was sent; `resized`: of the one its processor made of it;
`rel1`, `rel999`, `rel1000`: parts of the picture, from 0 to that."""
_PARTS = {"rel1": 1, "rel999": 999, "rel1000": 1000}


class SentFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of the screen as a model got it, in pixels."""

    screen: tuple[int, int]
    """Width and height of the screen itself."""
    sent: tuple[int, int]
    """Of the picture that was sent."""
    resized: tuple[int, int] | None = None
    """Of what the model's processor made of that; None where it is not known."""


def to_screen(x: float, y: float, space: CoordinateSpace, frame: SentFrame) -> Point:
    """The pixel of the screen that a model means.

    Raises:
        ValueError: the space is of the resized picture, and its size is not known.
    """
    size: tuple[float, float]
    if space == "absolute":
        size = frame.sent
    elif space == "resized":
        if frame.resized is None:
            raise ValueError("a model that counts in its resized picture must say how large it is")
        size = frame.resized
    else:
        size = (_PARTS[space], _PARTS[space])
    return Point(_scaled(x, size[0], frame.screen[0]), _scaled(y, size[1], frame.screen[1]))


def smart_resize(
    width: int, height: int, *, factor: int, pixels_min: int, pixels_max: int
) -> tuple[int, int]:
    """The size that Qwen's processors make of a picture: multiples of a factor, within bounds."""
    sides = [max(factor, round(side / factor) * factor) for side in (width, height)]
    area = width * height
    if sides[0] * sides[1] > pixels_max:
        shrink = (area / pixels_max) ** 0.5
        sides = [max(factor, int(side / shrink / factor) * factor) for side in (width, height)]
    elif sides[0] * sides[1] < pixels_min:
        grow = (pixels_min / area) ** 0.5
        sides = [-int(-side * grow // factor) * factor for side in (width, height)]
    return sides[0], sides[1]


def _scaled(value: float, of: float, to: int) -> int:
    """Round, and keep the edge of the picture on the screen."""
    return min(max(round(value / of * to), 0), to - 1)
