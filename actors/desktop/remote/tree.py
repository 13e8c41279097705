"""The accessibility tree as OSWorld's server words it, read as what applications say of themselves.

It comes from a hostile machine: no document type is taken, so nothing is ever expanded or fetched,
and size, depth and number of things are bounded.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from envs_node.actors.desktop.accessibility import Node, Reading
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.messages.desktop import Cut

XML_CHARACTERS_MAX = 16 << 20
_NODES_MAX = 4000
_DEPTH_MAX = 64
_TEXT_CHARACTERS_MAX = 2000
_SPACE = "https://accessibility.ubuntu.example.org/ns/"
_STATE, _PLACE, _SIZE = (
    f"{_SPACE}state|",
    f"{_SPACE}component|screencoord",
    f"{_SPACE}component|size",
)
_PAIR = re.compile(r"\(\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*\)")


def read_tree(text: str) -> Reading:
    """What shows on the screen, of all applications.

    Raises:
        DesktopLostError: it is no tree.
    """
    if len(text) > XML_CHARACTERS_MAX:
        return Reading(nodes=[], cuts=frozenset({"size"}))
    if "<!" in text:  # no tree has one: a text's own is written &lt;!
        raise DesktopLostError("the accessibility tree declares something, which none may")
    reader = _Reader()
    parser = expat.ParserCreate("utf-8", "|")
    parser.buffer_text = True
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.say
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise DesktopLostError(f"the accessibility tree is no XML: {error}") from error
    return Reading(nodes=reader.nodes, cuts=frozenset(reader.cuts))


class _Reader:
    """Makes a node of each thing that shows, as its element begins."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.cuts: set[Cut] = set()
        self._open: list[Node] = []
        """The elements around; what does not show has no extent, and is in no list."""
        self._applications = 0
        self._count = 0

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        depth = len(self._open)
        if depth == 0 and attributes.get("cut") == "true":
            self.cuts.add("nodes")
        self._applications += int(depth == 1)
        self._count += 1
        states = frozenset(
            name.removeprefix(_STATE).replace("-", " ")
            for name, value in attributes.items()
            if name.startswith(_STATE) and value == "true"
        )
        node = Node(
            bus=str(self._applications), path=str(self._count),
            parent=self._open[-1].path if self._open else "", role=tag.replace("-", " "),
            name=attributes.get("name", ""), description="", states=states,
            interfaces=frozenset(), extent=_extent(attributes),
        )  # fmt: skip
        self._open.append(node)
        if "showing" not in states or depth < 2:
            return
        if depth > _DEPTH_MAX:
            self.cuts.add("depth")
        elif len(self.nodes) >= _NODES_MAX:
            self.cuts.add("nodes")
        else:
            self.nodes.append(node)

    def end(self, _tag: str) -> None:
        self._open.pop()

    def say(self, text: str) -> None:
        node = self._open[-1]
        left = _TEXT_CHARACTERS_MAX - len(node.text)
        if left > 0 and (node.text or text.strip()):
            node.text += text[:left]


def _extent(attributes: dict[str, str]) -> tuple[int, int, int, int] | None:
    place = _PAIR.fullmatch(attributes.get(_PLACE, ""))
    size = _PAIR.fullmatch(attributes.get(_SIZE, ""))
    if place is None or size is None:
        return None
    return int(place[1]), int(place[2]), int(size[1]), int(size[2])
