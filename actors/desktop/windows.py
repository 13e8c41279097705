"""The top-level windows as an observation tells them, and what stands for silent ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envs_node.actors.desktop.accessibility import Node
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, SeenWindow

WINDOWS_MAX = 64
_TITLE_CHARACTERS_MAX = 200
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
