"""The top-level windows as an observation tells them, and what stands for silent ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envs_node.actors.desktop.accessibility import Node
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.screen import Pixels
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, SeenWindow

WINDOWS_MAX = 64
_TITLE_CHARACTERS_MAX = 200
_DEPTH_MAX = 24
_NEAR_PX = 60
"""A window's own account of its box may leave out its title bar and shadow."""


def tell(windows: Sequence[Window], focused: int) -> tuple[SeenWindow, ...]:
    """The topmost windows as data, bottom to top."""
    return tuple(
        SeenWindow(
            title=_short(window.title), app_class=_short(window.app_class), x=window.x, y=window.y,
            width=window.width, height=window.height, is_focused=window.id == focused,
            is_hidden=window.is_hidden,
        )
        for window in windows[-WINDOWS_MAX:]
    )  # fmt: skip


def require_drawn(pixels: Pixels, windows: Iterable[Window]) -> None:
    """Refuse a picture that nothing has drawn: it is no evidence for or against a policy.

    A window as large as the screen may well be black (a film, before it begins).

    Raises:
        DesktopLostError: windows are open, and every pixel is black.
    """
    if pixels[::16, ::16, :3].any() or pixels[..., :3].any():
        return
    height, width = pixels.shape[:2]
    seen = [window for window in windows if not window.is_hidden]
    if seen and not any(window.width >= width and window.height >= height for window in seen):
        raise DesktopLostError(f"the picture is black, though {len(seen)} windows are open")


def silent_windows(windows: Sequence[Window], nodes: Iterable[Node]) -> tuple[str, ...]:
    """Titles of the visible windows that no application owns to in the accessibility tree.

    Either their toolkit knows no accessibility, or the application has not got that far.
    """
    outer = [node for node in nodes if node.extent and node.role in _OUTER]
    names = {node.name for node in outer}
    return tuple(
        _short(window.title)
        for window in windows[-WINDOWS_MAX:]
        if not window.is_hidden
        and window.title not in names
        and not any(_is_near(window, node) for node in outer)
    )


def place(nodes: Sequence[Node], windows: Sequence[Window]) -> list[Node]:
    """The nodes with all extents on the screen, those of GTK 4 moved by where their window is."""
    by_place = {(node.bus, node.path): node for node in nodes if node.is_relative}
    corners: dict[tuple[str, str], tuple[int, int] | None] = {}
    placed = []
    for node in nodes:
        if node.is_relative and node.extent is not None:
            top = node
            for _ in range(_DEPTH_MAX):
                top = by_place.get((top.bus, top.parent), top)
            key = (top.bus, top.path)
            if key not in corners:
                corners[key] = _corner(top, windows)
            if (corner := corners[key]) is not None:
                x, y, wide, high = node.extent
                extent = (x + corner[0], y + corner[1], wide, high)
                node = msgspec.structs.replace(node, extent=extent)
        placed.append(node)
    return placed


def _corner(top: Node, windows: Sequence[Window]) -> tuple[int, int] | None:
    """Where on the screen a window's content begins: within its shadow, if it draws one."""
    named = [window for window in windows if window.title == top.name and not window.is_hidden]
    if not named or top.extent is None:
        return None
    window = named[-1]
    left, right, upper, _ = window.margins
    across = max(0, window.width - top.extent[2])
    if across == left + right:
        return window.x + left, window.y + upper
    down = max(0, window.height - top.extent[3])
    return window.x + across // 2, window.y + down // 2  # a border where no shadow can be


def bare_elements(
    windows: Sequence[Window], focused: int, listed: Sequence[Element]
) -> tuple[Element, ...]:
    """A frame and a terminal for each visible terminal window, which says nothing of itself."""
    found: list[Element] = []
    told = {element.name for element in listed if element.role == "frame"}
    for window in windows[-WINDOWS_MAX:]:
        if "XTerm" not in window.app_class or window.is_hidden or window.title in told:
            continue
        states = ("focused",) if window.id == focused else ()
        x, y = max(0, window.x), max(0, window.y)
        for role in ("frame", "terminal"):
            found.append(
                Element(
                    role=role, name=window.title, value="", x=x, y=y, width=window.width,
                    height=window.height, states=states if role == "terminal" else (),
                )
            )  # fmt: skip
    return tuple(found)


_OUTER = frozenset(
    {"frame", "dialog", "alert", "window", "file chooser", "color chooser", "font chooser"}
)


def _short(text: str) -> str:
    return text[:_TITLE_CHARACTERS_MAX]


def _is_near(window: Window, node: Node) -> bool:
    """Whether a node covers about the same box as a window."""
    if node.extent is None:
        return False
    edges = (window.x, window.y, window.x + window.width, window.y + window.height)
    x, y, wide, high = node.extent
    return all(
        abs(one - other) <= _NEAR_PX
        for one, other in zip(edges, (x, y, x + wide, y + high), strict=True)
    )
