"""From what applications say to what can be used: the element list. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from envs_node.actors.desktop.accessibility import Node
from envs_node.messages.desktop import Cut, Element

ELEMENTS_MAX = 170
VALUE_CHARACTERS_MAX = 200
_NAME_CHARACTERS_MAX = 1000
_LABEL_CHARACTERS_MAX = 60
_ROW_PX = 12
_FIELDS = frozenset({"text", "entry", "password text", "spin button", "combo box"})
_MENUS = frozenset({"menu item", "check menu item", "radio menu item", "tearoff menu item"})
_TITLES = frozenset({"frame", "dialog", "alert", "file chooser", "color chooser", "font chooser"})
_DIALOGS = _TITLES - {"frame"}
_KEPT = (
    _FIELDS | _MENUS | _TITLES
    | {"menu", "push button", "toggle button", "check box", "radio button", "page tab", "link",
       "table cell", "icon", "label", "list item", "tree item", "slider", "paragraph", "heading",
       "terminal", "table column header"}
)  # fmt: skip
# Without a name nobody can ask for one of these: arrows of combo boxes, tabs of a sidebar.
_NAMED = frozenset(
    {"push button", "toggle button", "check box", "radio button", "link", "menu", "page tab",
     "list item", "tree item", "table column header", "slider"} | _MENUS
)  # fmt: skip
_GTK4_CLASS = re.compile(r"(Gtk|Adw|Hdy)[A-Z][A-Za-z]+")
"""What GTK 4 calls a thing that has no name."""
_TOLD_STATES = ("focused", "checked", "selected", "pressed", "editable", "expanded", "modal")


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The elements of a screen."""

    elements: tuple[Element, ...]
    cuts: frozenset[Cut] = frozenset()


def list_elements(nodes: Sequence[Node], width: int, height: int) -> Listing:
    """The elements a policy may use, by row and column, at most 170.

    Left out: what is insensitive, off the screen, a mere container, covered by an open menu, or
    outside the active dialog.
    """
    tops = _tops(nodes)
    offsets = _libreoffice_offsets(nodes, tops)
    active = _active_dialogs(nodes)
    found: list[tuple[Node, Element]] = []
    buttons = {(node.bus, node.path) for node in nodes if node.role in _NAMED}
    for node in nodes:
        if node.role == "label" and (node.bus, node.parent) in buttons:
            continue  # its button bears the same name
        top = tops[node.bus, node.path]
        if active and (top.bus, top.path) not in active and node.role not in _MENUS:
            continue
        offset = offsets.get((top.bus, top.path), 0)
        element = _element(node, offset, width, height)
        # Some previews place their cells as if the dialog were the screen.
        if element is not None and (not active or _is_within(element, top)):
            found.append((node, element))
    elements = _name_fields(_uncover(found))
    if any(element.role == "table cell" for element in elements):
        elements = [element for element in elements if element.role != "label"]
    elements.sort(key=lambda e: (e.y // _ROW_PX, e.x, e.role, e.name, e.width, e.height))
    cuts: frozenset[Cut] = frozenset({"list"} if len(elements) > ELEMENTS_MAX else ())
    return Listing(elements=tuple(elements[:ELEMENTS_MAX]), cuts=cuts)


def _tops(nodes: Sequence[Node]) -> dict[tuple[str, str], Node]:
    """For each node the outermost node around it that shows."""
    by_path = {(node.bus, node.path): node for node in nodes}
    tops: dict[tuple[str, str], Node] = {}
    for node in nodes:
        top, seen = node, {node.path}
        while (parent := by_path.get((top.bus, top.parent))) and parent.path not in seen:
            if parent.role == "application":
                break
            top = parent
            seen.add(top.path)
        tops[node.bus, node.path] = top
    return tops


def _libreoffice_offsets(
    nodes: Sequence[Node], tops: dict[tuple[str, str], Node]
) -> dict[tuple[str, str], int]:
    """By how many px LibreOffice places the content of a frame too high.

    It counts from below its menu bar; the status bar, which ends the window, shows by how much.
    """
    offsets = {}
    for node in nodes:
        top = tops[node.bus, node.path]
        is_office = top.role == "frame" and "LibreOffice" in top.name
        if node.role == "status bar" and is_office and node.extent and top.extent:
            bottom = top.extent[1] + top.extent[3]
            offsets[top.bus, top.path] = max(0, bottom - node.extent[1] - node.extent[3])
    return offsets


def _active_dialogs(nodes: Sequence[Node]) -> set[tuple[str, str]]:
    dialogs = [node for node in nodes if node.role in _DIALOGS and node.extent]
    chosen = [node for node in dialogs if "active" in node.states]
    chosen = chosen or [node for node in dialogs if "modal" in node.states]
    return {(node.bus, node.path) for node in chosen}


def _element(node: Node, offset: int, width: int, height: int) -> Element | None:
    if node.role not in _KEPT or node.extent is None or "defunct" in node.states:
        return None
    x, y, wide, high = node.extent
    if node.role not in _MENUS and node.role not in _TITLES and node.role != "menu":
        y += offset
    wide, high = min(x + wide, width) - max(x, 0), min(y + high, height) - max(y, 0)
    x, y = max(x, 0), max(y, 0)
    if wide <= 1 or high <= 1:
        return None
    is_sensitive = "sensitive" in node.states or "enabled" in node.states
    name = " ".join(node.name[:_NAME_CHARACTERS_MAX].split())
    if node.is_relative and _GTK4_CLASS.fullmatch(name):
        name = ""
    value = node.text[:VALUE_CHARACTERS_MAX]
    match node.role:
        case "frame" if not name:
            return None
        case "label" if not name or len(name) > _LABEL_CHARACTERS_MAX:
            return None
        case "icon" if not name or "symbolic" in name:
            return None
        case "text" if "editable" not in node.states and not value:
            return None
        case "menu" if "opaque" in node.states:
            return None  # LibreOffice's own menu bar, which is not the one on the screen
        case "label" | "paragraph" | "heading" | "table cell" | "frame":
            pass
        case role if role not in _TITLES and not is_sensitive:
            return None
    if not name and node.role not in _FIELDS:
        name = " ".join(node.description.split()[:4])
    if not name and not value and node.role in _NAMED:
        return None
    return Element(
        role=node.role, name=name, value=value, x=x, y=y,
        width=wide, height=high,
        states=tuple(state for state in _TOLD_STATES if state in node.states),
    )  # fmt: skip


def _is_within(element: Element, top: Node) -> bool:
    """Whether the middle of an element lies in the window around it; True where that is unknown."""
    if top.extent is None:
        return True
    left, upper, wide, high = top.extent
    x, y = element.x + element.width / 2, element.y + element.height / 2
    return left <= x <= left + wide and upper <= y <= upper + high


def _uncover(found: Sequence[tuple[Node, Element]]) -> list[Element]:
    """Drop what lies under an open menu."""
    menus: dict[tuple[str, str], list[Element]] = defaultdict(list)
    for node, element in found:
        if element.role in _MENUS:
            menus[node.bus, node.parent].append(element)
    boxes = [
        (min(e.x for e in items), min(e.y for e in items),
         max(e.x + e.width for e in items), max(e.y + e.height for e in items))
        for items in menus.values()
    ]  # fmt: skip

    def is_covered(element: Element) -> bool:
        x, y = element.x + element.width / 2, element.y + element.height / 2
        return any(left < x < right and top < y < bottom for left, top, right, bottom in boxes)

    seen: set[Element] = set()
    kept = []
    for _, element in found:
        is_menu = element.role in _MENUS or element.role == "menu" or element.role in _TITLES
        if element not in seen and (is_menu or not is_covered(element)):
            seen.add(element)
            kept.append(element)
    return kept


def _name_fields(elements: Sequence[Element]) -> list[Element]:
    """Give a field without a name that of the nearest label, left of it or above it."""
    labels = [element for element in elements if element.role == "label"]
    named = []
    for element in elements:
        if element.name or element.role not in _FIELDS:
            named.append(element)
            continue
        near = [(distance, label.name) for label in labels
                if (distance := _distance(label, element)) is not None]  # fmt: skip
        name = min(near)[1] if near else ("text area" if element.height > 80 else "")
        named.append(
            Element(
                role=element.role, name=name, value=element.value, x=element.x, y=element.y,
                width=element.width, height=element.height, states=element.states,
            )
        )  # fmt: skip
    return named


def _distance(label: Element, field: Element) -> float | None:
    """How far a label is from the field it may describe, in px; None if it cannot."""
    right = field.x - (label.x + label.width)
    level = abs((field.y + field.height / 2) - (label.y + label.height / 2))
    above = field.y - (label.y + label.height)
    if -5 <= right < 200 and level < 20:
        return float(right)
    if 0 <= above < 30 and abs(label.x - field.x) < 60:
        return 100.0 + above
    return None
