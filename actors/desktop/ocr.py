"""Text lines read off the picture, for windows that say nothing to the accessibility bus.

An extra: it needs the program `tesseract` (Debian: tesseract-ocr), which reads outside this
process and is killed when its time is over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from io import BytesIO
from typing import TypeAlias

import numpy as np
from PIL import Image

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.screen import Pixels
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element

ROLE = "text line (ocr)"
READ_S_MAX = 4.0
"""For all windows of one look."""
_LINES_MAX = 60
_WINDOWS_MAX = 4
_SCALE = 2
"""Letters on a screen are half as high as tesseract likes them."""
_CONFIDENCE_MIN = 40.0
_CHARACTERS_MAX = 200
_PROGRAM = "tesseract"
_SPARSE_TEXT = "11"
"""Its page segmentation mode for text that stands here and there."""
_GAP = 1.0
"""Of the height of its words; a space is narrower."""
_Word: TypeAlias = tuple[str, int, int, int, int]
"""Text, x, y, width, height."""
_COLUMNS, _CONFIDENCE = 12, 10
_ENVIRONMENT = {"PATH": os.defpath, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C.UTF-8"}
"""Its threads wait for each other in loops: with one it uses a sixth of the processor time."""


def require_ocr() -> None:
    """Refuse to go on without what reads text.

    Raises:
        LauncherError: saying what to install.
    """
    if shutil.which(_PROGRAM) is None:
        raise LauncherError("desktop.ocr needs tesseract: apt-get install tesseract-ocr")


def read_lines(
    pixels: Pixels,
    windows: Sequence[Window],
    titles: Sequence[str],
    within_s: float = READ_S_MAX,
) -> tuple[tuple[Element, ...], bool]:
    """The text lines of the windows with these titles, and whether time cut them short.

    Args:
        pixels: the whole screen.
        windows: bottom to top; what lies under another window is left out.
    """
    deadline_s = time.monotonic() + within_s
    found: list[Element] = []
    wanted = [
        (window, windows[place + 1 :]) for place, window in enumerate(windows)
        if window.title in titles and not window.is_hidden
    ]  # fmt: skip
    for window, above in reversed(wanted[-_WINDOWS_MAX:]):
        left_s = deadline_s - time.monotonic()
        lines = _read(pixels, window, left_s) if left_s > 0 else None
        if lines is None:
            return tuple(found[:_LINES_MAX]), True
        found += [line for line in lines if not any(_covers(other, line) for other in above)]
    return tuple(found[:_LINES_MAX]), False


def _read(pixels: Pixels, window: Window, timeout_s: float) -> list[Element] | None:
    """The lines of one window; None when it takes too long."""
    height, width = pixels.shape[:2]
    left, top = max(0, window.x), max(0, window.y)
    right, bottom = min(width, window.x + window.width), min(height, window.y + window.height)
    if right - left < 8 or bottom - top < 8:
        return []
    grey = np.ascontiguousarray(pixels[top:bottom, left:right, :3]).mean(axis=2)
    image = Image.fromarray(grey.astype(np.uint8))
    picture = BytesIO()
    image.resize((image.width * _SCALE, image.height * _SCALE), Image.Resampling.LANCZOS).save(
        picture, "PNG", compress_level=1
    )
    try:
        ended = subprocess.run(
            (_PROGRAM, "stdin", "stdout", "--psm", _SPARSE_TEXT, "tsv"), input=picture.getvalue(),
            env=_ENVIRONMENT, capture_output=True, timeout=timeout_s, check=True,
        )  # fmt: skip
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return _lines(ended.stdout.decode("utf-8", "replace"), left, top)


def _lines(table: str, left: int, top: int) -> list[Element]:
    """From a table of words in a scaled part to lines on the screen."""
    lines: dict[tuple[str, ...], list[_Word]] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) < _COLUMNS or not (word := cells[-1].strip()):
            continue
        if float(cells[_CONFIDENCE]) >= _CONFIDENCE_MIN:
            x, y, wide, high = (int(cell) // _SCALE for cell in cells[6:10])
            # Page, block, paragraph and line come first.
            lines.setdefault(tuple(cells[1:5]), []).append((word, left + x, top + y, wide, high))
    return [_line(part) for words in lines.values() for part in _parts(words)]


def _parts(words: list[_Word]) -> list[list[_Word]]:
    """A line taken apart at its wide gaps: the menus of a menu bar are no sentence."""
    parts: list[list[_Word]] = []
    for word in sorted(words, key=lambda word: word[1]):
        before = parts[-1][-1] if parts else None
        if before and word[1] - before[1] - before[3] < _GAP * max(word[4], before[4]):
            parts[-1].append(word)
        else:
            parts.append([word])
    return parts


def _line(words: Sequence[_Word]) -> Element:
    x, y = min(word[1] for word in words), min(word[2] for word in words)
    return Element(
        role=ROLE, name=" ".join(word[0] for word in words)[:_CHARACTERS_MAX], value="", x=x, y=y,
        width=max(word[1] + word[3] for word in words) - x,
        height=max(word[2] + word[4] for word in words) - y,
    )  # fmt: skip


def _covers(window: Window, line: Element) -> bool:
    x, y = line.x + line.width // 2, line.y + line.height // 2
    return (
        not window.is_hidden
        and window.x <= x < window.x + window.width
        and window.y <= y < window.y + window.height
    )
