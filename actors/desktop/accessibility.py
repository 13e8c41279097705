"""The accessibility bus of a desktop: what every application says is on the screen.

One `Cache.GetItems` an application, then pipelined questions about what shows. LibreOffice is asked
thing by thing instead: it dies now and then of its own cache. A spreadsheet is never asked for its
children: it has a billion and would not answer. Everything is bounded, in number and in time, and
what was left out for that is said.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from envs_node.actors.desktop.atspi import role_of, states_of
from envs_node.actors.desktop.bus import Call, find_accessibility_bus
from envs_node.messages.desktop import Cut

READ_S_MAX = 6.0
"""For the whole list."""
_TRAITS_S_MAX, _CACHE_S_MAX = 2.0, 3.0
"""For what an application is, and all it has. Who hangs longer is not asked again for a while."""
_MUTE_S = 30.0
_WALK_S_MAX = 4.0
"""For what is in no cache, counted from the start."""
_NODES_MAX = 4000
_WALKED_MAX = 1000
_APPLICATIONS_MAX = 50
SHEET_ROWS, SHEET_COLUMNS = 12, 6
_BARE_CELLS_MAX = 200
_TABLES_MAX = 3
_CHILDREN_MAX = 500
_ITEMS_MAX = 20_000
_PARTS_MAX = 8
_DEPTH_MAX = 24
_PREFIX = "org.a11y.atspi."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_NULL = "/org/a11y/atspi/null"

_TEXT_ROLES = frozenset(
    {"text", "entry", "password text", "paragraph", "spin button", "heading", "combo box",
     "table cell"}
)  # fmt: skip

_OFFICE = "soffice"
_CACHE = ("a((so)(so)(so)iiassusau)", "a((so)(so)(so)a(so)assusau)")
"""What `GetItems` answers: new applications count their children, old ones list them."""
Item = tuple[Any, ...]
"""An object of `Cache.GetItems`: (bus, path), application, parent, index, children, …"""


class Node(msgspec.Struct, kw_only=True):
    """One showing thing of an application, as the application describes it."""

    bus: str
    path: str
    parent: str
    role: str
    name: str
    description: str
    states: frozenset[str]
    interfaces: frozenset[str]
    extent: tuple[int, int, int, int] | None = None
    """x, y, width, height on the screen, in px."""
    text: str = ""
    is_relative: bool = False
    """Whether the extent counts from the corner of its window: GTK 4 knows no screen."""


class _Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How an application is to be read."""

    is_gtk4: bool = False
    """GTK 4 counts places from the corner of a window."""
    has_cache: bool = True
    """False for LibreOffice: its cache holds things that are gone, and it dies of reading them."""


_PLAIN = _Traits()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What all applications said at one moment."""

    nodes: list[Node]
    cuts: frozenset[Cut] = frozenset()
    """What bounds it ran into."""


class AccessibilityBus:
    """A connection to a desktop's accessibility bus. Make it before applications start."""

    def __init__(self, session_bus: str, root: str, timeout_s: float) -> None:
        """Connect as soon as the bus answers.

        Args:
            session_bus: path of the session bus's socket, as the host sees it.
            root: the desktop's root, as the host sees it.
        """
        self._bus = find_accessibility_bus(session_bus, root, timeout_s)
        self._deadline_s = time.monotonic() + READ_S_MAX
        self._cuts: set[Cut] = set()
        self._traits: dict[str, _Traits] = {}
        self._mute_until_s: dict[str, float] = {}
        with contextlib.ExitStack() as stack:
            stack.callback(self._bus.close)
            # Applications keep no cache until somebody listens to these two.
            for event in ("object:children-changed", "object:state-changed"):
                registry = (f"{_PREFIX}Registry", "/org/a11y/atspi/registry", f"{_PREFIX}Registry")
                self._ask([Call(*registry, "RegisterEvent", "s", (event,), ("",))])
            stack.pop_all()

    def read(self) -> Reading:
        """Everything that shows, with extents and texts; a hung application is left out."""
        start_s = time.monotonic()
        self._deadline_s = start_s + _WALK_S_MAX
        self._cuts = set()
        self._bus.begin()
        root = (f"{_PREFIX}Registry", "/org/a11y/atspi/accessible/root")
        applications = self._ask_children([root])[0][:_APPLICATIONS_MAX]
        applications = self._leave_out_mute(applications)
        self._find_traits(applications)
        applications = self._leave_out_mute(applications)
        items = self._read_caches(applications)
        applications = self._leave_out_mute(applications)
        nodes = self._showing(items)
        nodes += self._read_missing(applications, items, nodes)
        self._deadline_s = start_s + READ_S_MAX
        if len(nodes) > _NODES_MAX:
            self._cuts.add("nodes")
            nodes = nodes[:_NODES_MAX]
        nodes += self._read_cells(nodes)
        self._fill(nodes)
        self._name_rows(nodes)
        if time.monotonic() >= self._deadline_s:
            self._cuts.add("time")
        if self._bus.is_cut:
            self._cuts.add("size")
        return Reading(nodes=nodes, cuts=frozenset(self._cuts))

    def close(self) -> None:
        """Hang up."""
        self._bus.close()

    def _leave_out_mute(self, applications: list[tuple[str, str]]) -> list[tuple[str, str]]:
        now_s = time.monotonic()
        mute = {bus for bus, until_s in self._mute_until_s.items() if now_s < until_s}
        speaking = [(bus, path) for bus, path in applications if bus not in mute]
        if len(speaking) < len(applications):
            self._cuts.add("time")
        return speaking

    def _read_caches(self, applications: list[tuple[str, str]]) -> list[Item]:
        deadline_s = time.monotonic() + _CACHE_S_MAX
        places = [bus for bus, _ in applications if self._traits.get(bus, _PLAIN).has_cache]
        caches = self._bus.ask([
            Call(bus, "/org/a11y/atspi/cache", f"{_PREFIX}Cache", "GetItems", None, (), _CACHE)
            for bus in places
        ], deadline_s)  # fmt: skip
        self._mute(dict(zip(places, caches, strict=True)), deadline_s)
        items = [item for cache in caches if cache for item in cache[0]]
        if len(items) > _ITEMS_MAX:
            self._cuts.add("nodes")
        return items[:_ITEMS_MAX]

    def _mute(self, answers: Mapping[str, Any], deadline_s: float) -> None:
        """Ask those no more for a while who kept us waiting until the deadline."""
        if (now_s := time.monotonic()) >= deadline_s:
            silent = [bus for bus, answer in answers.items() if answer is None]
            self._mute_until_s.update(dict.fromkeys(silent, now_s + _MUTE_S))

    def _find_traits(self, applications: list[tuple[str, str]]) -> None:
        """Learn how applications are to be read: each is asked once."""
        deadline_s = time.monotonic() + _TRAITS_S_MAX
        strangers = [place for place in applications if place[0] not in self._traits]
        calls = [
            call for bus, path in strangers for call in (
                _property(bus, path, "Name"),
                _property(bus, path, "ToolkitName", "Application"),
                _property(bus, path, "Version", "Application"),
            )
        ]  # fmt: skip
        answers = iter(self._bus.ask(calls, deadline_s))
        names: dict[str, Any] = {}
        for (bus, _), *said in zip(strangers, *[answers] * 3, strict=True):
            names[bus] = said[0]
            if said[0]:
                name, toolkit, version = (_string(answer).lower() for answer in said)
                is_gtk4 = toolkit == "gtk" and version.startswith("4.")
                self._traits[bus] = _Traits(is_gtk4=is_gtk4, has_cache=name != _OFFICE)
        self._mute(names, deadline_s)

    def _showing(self, items: Sequence[Item]) -> list[Node]:
        """What shows of a cache. GTK 4 says of its windows alone that they do."""
        nodes = [self._node(item) for item in items]
        by_place = {(node.bus, node.path): node for node in nodes if node.is_relative}

        def shows(node: Node | None, depth: int = 0) -> bool:
            if node is None or "visible" not in node.states or depth > _DEPTH_MAX:
                return False
            parent = by_place.get((node.bus, node.parent))
            return "showing" in node.states or shows(parent, depth + 1)

        return [
            node for node in nodes if "showing" in node.states or (node.is_relative and shows(node))
        ]

    def _node(self, item: Item) -> Node:
        """A node of an item."""
        interfaces = item[5] if isinstance(item[5], list) else item[4]
        name, role, description, words = item[-4:]
        bus = str(item[0][0])
        return Node(
            bus=bus, path=str(item[0][1]), parent=str(item[2][1]), role=role_of(role),
            name=str(name), description=str(description), states=states_of(words),
            interfaces=frozenset(str(name).removeprefix(_PREFIX) for name in interfaces),
            is_relative=self._traits.get(bus, _PLAIN).is_gtk4,
        )  # fmt: skip

    def _read_missing(
        self, applications: list[tuple[str, str]], items: list[Item], showing: list[Node]
    ) -> list[Node]:
        """What shows and is in no cache.

        It came up while its application started, or the application keeps no cache at all (Qt).
        """
        known = {(item[0][0], item[0][1]) for item in items}
        cached = Counter((item[0][0], item[2][1]) for item in items)
        shown = {(node.bus, node.path) for node in showing}
        front = []
        for node, count in ((self._node(item), _child_count(item)) for item in items):
            is_shown = (node.bus, node.path) in shown
            if cached[node.bus, node.path] < count and is_shown and _is_open(node):
                if count <= _CHILDREN_MAX:
                    front.append(node)
                else:
                    self._cuts.add("children")
        speaking = {bus for bus, _ in known}
        silent = [(bus, path, "") for bus, path in applications if bus not in speaking]
        front += self._describe(silent)
        found: list[Node] = []
        for _ in range(_DEPTH_MAX):
            families = self._ask_children([(node.bus, node.path) for node in front])
            places = [
                (*child, parent.path)
                for parent, family in zip(front, families, strict=True)
                for child in family if child not in known and child[1] != _NULL
            ]  # fmt: skip
            places = list(dict.fromkeys(places))
            if len(found) + len(places) > _WALKED_MAX:
                self._cuts.add("nodes")
                places = places[: max(0, _WALKED_MAX - len(found))]
            if time.monotonic() >= self._deadline_s:
                self._cuts.add("time")
            if not places:
                return found
            known.update((bus, path) for bus, path, _ in places)
            born = [node for node in self._describe(places) if _shows_within(node)]
            found += born
            front = [node for node in born if _is_open(node)]
        if front:
            self._cuts.add("depth")
        return found

    def _ask_children(self, parents: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """The children of each, at most 500; none where it does not answer."""
        answers = self._ask([
            Call(bus, path, f"{_PREFIX}Accessible", "GetChildren", None, (), ("a(so)",))
            for bus, path in parents
        ])  # fmt: skip
        families = [[(bus, path) for bus, path in (answer or ([],))[0]] for answer in answers]
        if any(len(family) > _CHILDREN_MAX for family in families):
            self._cuts.add("children")
        return [family[:_CHILDREN_MAX] for family in families]

    def _describe(self, places: Sequence[tuple[str, str, str]]) -> list[Node]:
        """Nodes of objects of which only bus, path and parent are known."""
        accessible = f"{_PREFIX}Accessible"
        answers = iter(self._ask([
            call for bus, path, _ in places for call in (
                Call(bus, path, accessible, "GetState", None, (), ("au",)),
                Call(bus, path, accessible, "GetRole", None, (), ("u",)),
                Call(bus, path, accessible, "GetInterfaces", None, (), ("as",)),
                _property(bus, path, "Name"),
                _property(bus, path, "Description"),
            )
        ]))  # fmt: skip
        nodes = []
        for (bus, path, parent), *said in zip(places, *[answers] * 5, strict=True):
            if all(said[:3]):
                bits, role, interfaces = (answer[0] for answer in said[:3])
                item = ((bus, path), None, (bus, parent), 0, 0, interfaces)
                name, description = (_string(answer) for answer in said[3:])
                nodes.append(self._node((*item, name, role, description, bits)))
        return nodes

    def _read_cells(self, nodes: list[Node]) -> list[Node]:
        """The first cells of a spreadsheet, which its cache leaves out."""
        sheets = [
            node for node in nodes
            if "Table" in node.interfaces and "manages descendants" in node.states
        ]  # fmt: skip
        if sheets:
            self._cuts.add("children")
        places = self._ask([
            Call(
                sheet.bus, sheet.path, f"{_PREFIX}Table", "GetAccessibleAt", "ii", (row, column),
                ("(so)",),
            )
            for sheet in sheets[:_TABLES_MAX]
            for row in range(SHEET_ROWS) for column in range(SHEET_COLUMNS)
        ])  # fmt: skip
        size = SHEET_ROWS * SHEET_COLUMNS
        cells = {
            (str(place[0][0]), str(place[0][1])): sheets[number // size].path
            for number, place in enumerate(places) if place and place[0][1] != _NULL
        }  # fmt: skip
        known = {(node.bus, node.path) for node in nodes}
        return self._describe([
            (*cell, table) for cell, table in cells.items() if cell not in known
        ])  # fmt: skip

    def _fill(self, nodes: list[Node]) -> None:
        placed = [node for node in nodes if "Component" in node.interfaces]
        written = [n for n in nodes if "Text" in n.interfaces and n.role in _TEXT_ROLES]
        component, text = f"{_PREFIX}Component", f"{_PREFIX}Text"
        answers = self._ask([
            Call(node.bus, node.path, component, "GetExtents", "u", (0,), ("(iiii)",))
            for node in placed
        ] + [
            Call(node.bus, node.path, text, "GetText", "ii", (0, -1), ("s",))
            for node in written
        ])  # fmt: skip
        for node, answer in zip(placed, answers, strict=False):
            node.extent = answer[0] if answer else None
        for node, answer in zip(written, answers[len(placed) :], strict=True):
            node.text = answer[0] if answer else ""

    def _name_rows(self, nodes: list[Node]) -> None:
        """Name the cells of a list that hold an icon and a text: only their children tell."""
        bare = [n for n in nodes if n.role == "table cell" and not n.name and not n.text]
        bare = bare[:_BARE_CELLS_MAX]
        families = self._ask_children([(node.bus, node.path) for node in bare])
        parts = [
            (node, bus, path)
            for node, family in zip(bare, families, strict=True)
            for bus, path in family[:_PARTS_MAX]
        ]  # fmt: skip
        names = self._ask([_property(bus, path, "Name") for _, bus, path in parts])
        for (node, _, _), name in zip(parts, names, strict=True):
            node.name = f"{node.name} {_string(name)}".strip()

    def _ask(self, calls: Sequence[Call]) -> list[Any]:
        return self._bus.ask(calls, self._deadline_s)


def _property(bus: str, path: str, name: str, interface: str = "Accessible") -> Call:
    body = (f"{_PREFIX}{interface}", name)
    return Call(bus, path, _PROPERTIES, "Get", "ss", body, ("v",))


def _string(answer: Any) -> str:
    """The text in a property's answer; empty for none, or for what is no text."""
    return answer[0][1] if answer and answer[0][0] == "s" else ""


def _child_count(item: Item) -> int:
    return item[4] if isinstance(item[4], int) else len(item[3])


def _is_open(node: Node) -> bool:
    """Whether children of this are worth asking for: they may show, and can be counted."""
    is_closed = node.role == "menu" and "selected" not in node.states
    return "manages descendants" not in node.states and not is_closed


def _shows_within(node: Node) -> bool:
    """Whether this shows, given that what is around it does."""
    return "showing" in node.states or (node.is_relative and "visible" in node.states)
