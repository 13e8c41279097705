"""Draws a branch as it was beside how it went now: a row a state, and where the pictures differ."""

from __future__ import annotations

from io import BytesIO

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Key,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    Type,
)

THUMB_PX = 480
CELL_PX = 40
"""Side of the squares that differing pixels are gathered in, on the whole screen."""
_GAP_PX = 8
_LINE_PX = 18
_LINE_CHARACTERS = 190
_COLOURS = 128
_INK, _PAPER, _FAINT = (20, 20, 20), (255, 255, 255), (236, 236, 236)
_EDGE = (190, 190, 190)
_RING, _HEAT, _BOX = (230, 0, 120), (255, 0, 0), (255, 150, 0)
_MARKS = {"equal": (0, 120, 50), "masked": (170, 110, 0), "diverged": (200, 0, 0)}

Mask = NDArray[np.bool_]


class StripRow(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a branch, twice."""

    title: str
    outcome: str
    drift: str
    """How far the two are apart, in a line."""
    action: Action | None = None
    """What led there; None for the start."""
    then: bytes | None = None
    """PNG of the record."""
    now: bytes | None = None
    lack: str = ""
    """Why there is no picture of the record."""


def draw_strip(rows: tuple[StripRow, ...], *, heading: str, ending: tuple[str, ...]) -> bytes:
    """The whole strip as a PNG.

    Args:
        heading: what branch of what task this is.
        ending: lines below the last row.

    Raises:
        ValueError: there is no row.
    """
    if not rows:
        raise ValueError("a strip has at least the row of the start")
    bands = [_draw_row(row) for row in rows]
    width = 3 * THUMB_PX + 4 * _GAP_PX
    height = sum(band.height for band in bands) + _LINE_PX * (2 + len(ending)) + 3 * _GAP_PX
    strip = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(strip)
    y = _GAP_PX
    _write(draw, (_GAP_PX, y), heading)
    for column, name in enumerate(("recorded", "now", "difference")):
        _write(draw, (_GAP_PX + column * (THUMB_PX + _GAP_PX), y + _LINE_PX), name)
    y += 2 * _LINE_PX
    for band in bands:
        strip.paste(band, (0, y))
        y += band.height
    for line in ending:
        _write(draw, (_GAP_PX, y + _GAP_PX), line)
        y += _LINE_PX
    packed = BytesIO()
    strip.quantize(_COLOURS, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def pixels_differ(then: bytes, now: bytes) -> float | None:
    """Share of the pixels of two PNG that differ, 0 to 1; None when they are of different size."""
    mask = _mask(_open(then), _open(now))
    return None if mask is None else float(mask.mean())


def boxes_of(mask: Mask) -> list[tuple[int, int, int, int]]:
    """Boxes (left, top, right, bottom; the last two outside) around what is set in a mask.

    Cells of `CELL_PX` that touch, at their corners too, share a box.
    """
    height, width = mask.shape
    rows, columns = -(-height // CELL_PX), -(-width // CELL_PX)
    padded = np.zeros((rows * CELL_PX, columns * CELL_PX), dtype=bool)
    padded[:height, :width] = mask
    cells = padded.reshape(rows, CELL_PX, columns, CELL_PX).any(axis=(1, 3))  # (rows, columns)
    left = {(int(row), int(column)) for row, column in np.argwhere(cells)}
    boxes = []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            row, column = edge.pop()
            if (row, column) in left:
                left.remove((row, column))
                group.add((row, column))
                edge += [(row + dy, column + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        ys, xs = [row for row, _ in group], [column for _, column in group]
        right, bottom = (max(xs) + 1) * CELL_PX, (max(ys) + 1) * CELL_PX
        boxes.append((min(xs) * CELL_PX, min(ys) * CELL_PX, min(right, width), min(bottom, height)))
    return boxes


def _draw_row(row: StripRow) -> Image.Image:
    then = None if row.then is None else _open(row.then)
    now = None if row.now is None else _open(row.now)
    panels = [
        _thumb(then, row.action, row.lack or "not kept"),
        _thumb(now, row.action, "not reached"),
        _heat(then, now),
    ]
    top = 2 * _LINE_PX + _GAP_PX
    height = top + max(panel.height for panel in panels) + 1
    band = Image.new("RGB", (3 * THUMB_PX + 4 * _GAP_PX, height), _PAPER)
    draw = ImageDraw.Draw(band)
    _write(draw, (_GAP_PX, _GAP_PX), row.title)
    colour = _MARKS.get(row.outcome, _INK)
    _write(draw, (_GAP_PX, _GAP_PX + _LINE_PX), f"{row.outcome}: {row.drift}", colour)
    for column, panel in enumerate(panels):
        left = _GAP_PX + column * (THUMB_PX + _GAP_PX)
        band.paste(panel, (left, top))
        frame = [left - 1, top - 1, left + panel.width, top + panel.height]
        draw.rectangle(frame, outline=_EDGE)
    return band


def _thumb(picture: Image.Image | None, action: Action | None, lack: str) -> Image.Image:
    if picture is None:
        return _empty(lack)
    thumb = _small(picture)
    if action is not None:
        _draw_action(thumb, action, thumb.width / picture.width)
    return thumb


def _heat(then: Image.Image | None, now: Image.Image | None) -> Image.Image:
    """The picture now, pale, with what differs from the record in red, and boxes around it."""
    if then is None or now is None:
        return _empty("only one picture: nothing to compare")
    mask = _mask(then, now)
    if mask is None:
        return _empty("pictures of different size")
    pale = Image.blend(now.convert("L").convert("RGB"), Image.new("RGB", now.size, _PAPER), 0.6)
    heat = np.asarray(pale).copy()
    heat[mask] = _HEAT
    thumb = _small(Image.fromarray(heat))
    draw = ImageDraw.Draw(thumb)
    scale = thumb.width / now.width
    for left, top, right, bottom in boxes_of(mask):
        box = [left * scale, top * scale, right * scale - 1, bottom * scale - 1]
        draw.rectangle(box, outline=_BOX, width=2)
    if not mask.any():
        _tag(thumb, "no pixel differs", _INK)
    return thumb


def _draw_action(thumb: Image.Image, action: Action, scale: float) -> None:
    """A ring where it pointed, a line where it dragged, the words that it typed."""
    draw = ImageDraw.Draw(thumb)
    match action:
        case (
            Click(x=x, y=y)
            | Move(x=x, y=y)
            | MouseDown(x=x, y=y)
            | MouseUp(x=x, y=y)
            | Scroll(x=x, y=y)
        ):
            _ring(draw, x * scale, y * scale)
        case Drag(path=path):
            points = [(point.x * scale, point.y * scale) for point in path]
            if points:
                draw.line(points, fill=_RING, width=2)
                _ring(draw, *points[-1])
        case Type(text=text):
            _tag(thumb, f"types {text!r}")
        case Key(keys=keys):
            _tag(thumb, f"presses {'+'.join(keys)}")
        case KeyDown(key=key):
            _tag(thumb, f"holds {key} down")
        case KeyUp(key=key):
            _tag(thumb, f"lets {key} go")


def _ring(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    draw.ellipse([x - 9, y - 9, x + 9, y + 9], outline=_RING, width=3)


def _tag(thumb: Image.Image, words: str, colour: tuple[int, int, int] = _RING) -> None:
    """Words on a slip of paper at the lower edge."""
    draw = ImageDraw.Draw(thumb)
    words = words if len(words) <= 60 else words[:57] + "..."
    length = draw.textlength(words, font=_font())
    top = thumb.height - _LINE_PX - 2
    draw.rectangle([0, top, length + 12, thumb.height - 1], fill=_PAPER, outline=colour)
    _write(draw, (6, top + 1), words, colour)


def _mask(then: Image.Image, now: Image.Image) -> Mask | None:
    """Which pixels differ.  # (height, width)"""
    if then.size != now.size:
        return None
    differs: Mask = np.not_equal(np.asarray(then), np.asarray(now))  # (height, width, 3)
    mask: Mask = np.any(differs, axis=2)
    return mask


def _empty(words: str) -> Image.Image:
    panel = Image.new("RGB", (THUMB_PX, THUMB_PX * 9 // 16), _FAINT)
    _write(ImageDraw.Draw(panel), (12, THUMB_PX * 9 // 32 - _LINE_PX // 2), words)
    return panel


def _small(picture: Image.Image) -> Image.Image:
    height = max(round(picture.height * THUMB_PX / picture.width), 1)
    return picture.resize((THUMB_PX, height), Image.Resampling.BOX)


def _open(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def _write(
    draw: ImageDraw.ImageDraw,
    at: tuple[int, int],
    words: str,
    colour: tuple[int, int, int] = _INK,
) -> None:
    line = " ".join(words.split())
    line = line if len(line) <= _LINE_CHARACTERS else line[: _LINE_CHARACTERS - 3] + "..."
    draw.text(at, line, fill=colour, font=_font())


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=13)
