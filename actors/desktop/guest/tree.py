"""Prints the accessibility tree as XML, or the text of the focused terminal; a program of its own.

AT-SPI's own library may wait for an application that does not answer, so whoever wants the tree
starts this, and ends it when it takes too long. Names of elements and attributes are those of
OSWorld's server, by which its checks find what they look for.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

_SPACE = "https://accessibility.ubuntu.example.org/ns/"
_DEPTH_MAX, _WIDTH_MAX, _NODES_MAX = 50, 1024, 20_000
_TEXT_MAX = 100_000
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RENAMED = {"Chromium": "Google Chrome", "chromium": "Google Chrome"}
"""Applications that OSWorld's checks know by another name."""


class Walker:
    """Walks the tree, no deeper, wider or longer than it may."""

    def __init__(self, atspi: Any, timeout_s: float) -> None:
        self._atspi = atspi
        self._deadline = time.monotonic() + timeout_s
        self._left = _NODES_MAX
        self.is_cut = False

    def walk(self, node: Any, depth: int = 0) -> ElementTree.Element:
        """An accessible and all below it."""
        element = ElementTree.Element(_tag(_say(node.get_role_name)))
        self._describe(node, element)
        if depth >= _DEPTH_MAX:
            self.is_cut = True
            return element
        for child in self._children(node):
            element.append(self.walk(child, depth + 1))
        return element

    def _children(self, node: Any) -> Iterator[Any]:
        count = _say(node.get_child_count) or 0
        states = _say(node.get_state_set)
        manages = states is not None and states.contains(self._atspi.StateType.MANAGES_DESCENDANTS)
        if manages:  # a sheet of a million cells: what it shows is asked of it by place
            yield from self._visible_cells(node)
            return
        self.is_cut = self.is_cut or count > _WIDTH_MAX
        for number in range(min(count, _WIDTH_MAX)):
            self._left -= 1
            if self._left < 0 or time.monotonic() > self._deadline:
                self.is_cut = True
                return
            child = _say(node.get_child_at_index, number)
            if child is not None:
                yield child

    def _visible_cells(self, node: Any) -> Iterator[Any]:
        """The cells of a table on the screen, found by walking over it from corner to corner."""
        box = _say(node.get_extents, self._atspi.CoordType.SCREEN)
        seen: set[int] = set()
        y = box.y + 1 if box else 0
        while box and y < box.y + box.height:
            x, row_height = box.x + 1, 0
            while x < box.x + box.width:
                self._left -= 1
                if self._left < 0 or time.monotonic() > self._deadline:
                    self.is_cut = True
                    return
                cell = _say(node.get_accessible_at_point, x, y, self._atspi.CoordType.SCREEN)
                shape = _say(cell.get_extents, self._atspi.CoordType.SCREEN) if cell else None
                if shape is None or shape.width <= 0 or shape.height <= 0:
                    break
                row_height = row_height or shape.y + shape.height - y
                number = _say(cell.get_index_in_parent) or 0
                if number not in seen:
                    seen.add(number)
                    yield cell
                x = max(x + 1, shape.x + shape.width + 1)
            y += max(row_height, 1) + 1 if row_height else max(box.height, 1)

    def _describe(self, node: Any, element: ElementTree.Element) -> None:
        atspi = self._atspi
        name = _say(node.get_name) or ""
        element.set("name", _text(_RENAMED.get(name, name)))
        states = _say(node.get_state_set)
        is_showing = False
        if states is not None:
            for state in states.get_states():
                element.set(f"{{{_SPACE}state}}{state.value_nick.replace('_', '-')}", "true")
            is_showing = states.contains(atspi.StateType.SHOWING)
        for key, value in (_say(node.get_attributes) or {}).items():
            key = _NO_NAME.sub("", key) or "alt"
            element.set(f"{{{_SPACE}attributes}}{key}", _text(value))
        box = _say(node.get_extents, atspi.CoordType.SCREEN) if is_showing else None
        if box is not None and box.width > 0:
            element.set(f"{{{_SPACE}component}}screencoord", str((box.x, box.y)))
            element.set(f"{{{_SPACE}component}}size", str((box.width, box.height)))
        text = _say(node.get_text_iface)
        if text is not None:
            count = min(_say(text.get_character_count) or 0, _TEXT_MAX)
            element.text = _text((_say(text.get_text, 0, count) or "").replace("\ufffc", ""))
        value = _say(node.get_value_iface)
        if value is not None:
            number = _say(value.get_current_value)
            element.set(f"{{{_SPACE}value}}value", str(number if number is not None else ""))
        action = _say(node.get_action_iface)
        for number in range(min(_say(action.get_n_actions) or 0, 16) if action else 0):
            verb = _NO_NAME.sub("", _say(action.get_action_name, number) or "") or "action"
            said = _say(action.get_action_description, number) or ""
            element.set(f"{{{_SPACE}action}}{verb}_desc", _text(said))


def focused_terminal(node: Any, atspi: Any, depth: int = 0) -> str | None:
    """The text of the terminal with the focus, below an accessible."""
    if depth > _DEPTH_MAX:
        return None
    if _say(node.get_role_name) == "terminal":
        states, text = _say(node.get_state_set), _say(node.get_text_iface)
        if states is not None and states.contains(atspi.StateType.FOCUSED) and text is not None:
            return str(_say(text.get_text, 0, _say(text.get_character_count) or 0) or "")
    for number in range(min(_say(node.get_child_count) or 0, _WIDTH_MAX)):
        child = _say(node.get_child_at_index, number)
        found = focused_terminal(child, atspi, depth + 1) if child is not None else None
        if found is not None:
            return found
    return None


def _say(method: Any, *arguments: Any) -> Any:
    """What an accessible answers; None where it is gone or does not know."""
    from gi.repository import GLib

    try:
        return method(*arguments)
    except GLib.Error:
        return None


def _tag(role: str | None) -> str:
    name = _NO_NAME.sub("", (role or "").replace(" ", "-"))
    return name if name[:1].isalpha() else "unknown"


def _text(value: str) -> str:
    return _NO_XML.sub("", value)


def main() -> None:
    """Print what the first argument names, within the seconds of the second."""
    import gi

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi

    wanted, timeout_s = sys.argv[1], float(sys.argv[2])
    Atspi.set_timeout(800, 3000)
    desktop = Atspi.get_desktop(0)
    if wanted == "terminal":
        sys.stdout.write(focused_terminal(desktop, Atspi) or "")
        return
    for name in ("state", "attributes", "component", "value", "action"):
        short = {"state": "st", "attributes": "attr", "component": "cp", "value": "val"}
        ElementTree.register_namespace(short.get(name, "act"), _SPACE + name)
    walker = Walker(Atspi, timeout_s)
    root = walker.walk(desktop)
    root.tag = "desktop-frame"
    if walker.is_cut:
        root.set("cut", "true")
    sys.stdout.write(ElementTree.tostring(root, encoding="unicode"))


if __name__ == "__main__":
    main()
