"""The accessibility bus of a desktop: what every application says is on the screen.

One `Cache.GetItems` an application, then pipelined questions about what shows. Children are never
asked for: a spreadsheet has a billion of them and would not answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, prep_socket

from envs_node.actors.desktop.errors import DesktopLostError

ANSWER_TIMEOUT_S = 5.0
_GREET_S = 1.0
"""How long a bus may take to let us in; it is asked again until its deadline."""
SHEET_ROWS, SHEET_COLUMNS = 12, 6
_BARE_CELLS_MAX = 200
_TABLES_MAX = 3
_CHILDREN_MAX = 500
_DEPTH_MAX = 24
_POLL_S = 0.005
_PREFIX = "org.a11y.atspi."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_NULL = "/org/a11y/atspi/null"

# The order of AtspiRole and AtspiStateType in at-spi2-core's atspi-constants.h.
_ROLE_NAMES = (
    "invalid,accelerator label,alert,animation,arrow,calendar,canvas,check box,check menu item,"
    "color chooser,column header,combo box,date editor,desktop icon,desktop frame,dial,dialog,"
    "directory pane,drawing area,file chooser,filler,focus traversable,font chooser,frame,"
    "glass pane,html container,icon,image,internal frame,label,layered pane,list,list item,menu,"
    "menu bar,menu item,option pane,page tab,page tab list,panel,password text,popup menu,"
    "progress bar,push button,radio button,radio menu item,root pane,row header,scroll bar,"
    "scroll pane,separator,slider,spin button,split pane,status bar,table,table cell,"
    "table column header,table row header,tearoff menu item,terminal,text,toggle button,tool bar,"
    "tool tip,tree,tree table,unknown,viewport,window,extended,header,footer,paragraph,ruler,"
    "application,autocomplete,edit bar,embedded,entry,chart,caption,document frame,heading,page,"
    "section,redundant object,form,link,input method window,table row,tree item,"
    "document spreadsheet,document presentation,document text,document web,document email,comment,"
    "list box,grouping,image map,notification,info bar,level bar,title bar,block quote,audio,video,"
    "definition,article,landmark,log,marquee,math,rating,timer,static,math fraction,math root,"
    "subscript,superscript"
)
_STATE_NAMES = (
    "invalid,active,armed,busy,checked,collapsed,defunct,editable,enabled,expandable,expanded,"
    "focusable,focused,has tooltip,horizontal,iconified,modal,multi line,multiselectable,opaque,"
    "pressed,resizable,selectable,selected,sensitive,showing,single line,stale,transient,vertical,"
    "visible,manages descendants,indeterminate,required,truncated,animated,invalid entry,"
    "supports autocompletion,selectable text,is default,visited,checkable,has popup,read only"
)
_ROLES = _ROLE_NAMES.split(",")
_STATES = _STATE_NAMES.split(",")
_TEXT_ROLES = frozenset(
    {"text", "entry", "password text", "paragraph", "spin button", "heading", "combo box",
     "table cell"}
)  # fmt: skip

Item = tuple[Any, ...]
"""An object of `Cache.GetItems`: (bus, path), application, parent, index, children, …"""
Call = tuple[str, str, str, str, str | None, tuple[Any, ...]]


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


class AccessibilityBus:
    """A connection to a desktop's accessibility bus. Make it before applications start."""

    def __init__(self, session_bus: str, root: str, timeout_s: float) -> None:
        """Connect as soon as the bus answers.

        Args:
            session_bus: path of the session bus's socket, as the host sees it.
            root: the desktop's root, as the host sees it.
        """
        self._connection = _find_bus(session_bus, root, timeout_s)
        # Applications keep no cache until somebody listens to these two.
        for event in ("object:children-changed", "object:state-changed"):
            registry = (f"{_PREFIX}Registry", "/org/a11y/atspi/registry", f"{_PREFIX}Registry")
            self._ask([(*registry, "RegisterEvent", "s", (event,))])

    def read(self) -> list[Node]:
        """Everything that shows, with extents and texts; a hung application is left out."""
        desktop = (f"{_PREFIX}Registry", "/org/a11y/atspi/accessible/root")
        answer = self._ask([(*desktop, f"{_PREFIX}Accessible", "GetChildren", None, ())])[0]
        applications = [(str(bus), str(path)) for bus, path in (answer or ([],))[0]]
        items = self._read_caches(applications)
        nodes = [node for node in map(_node, items) if "showing" in node.states]
        nodes += self._read_missing(items)
        nodes += self._read_cells(nodes)
        self._fill(nodes)
        self._name_rows(nodes)
        return nodes

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _read_caches(self, applications: list[tuple[str, str]]) -> list[Item]:
        caches = self._ask([
            (bus, "/org/a11y/atspi/cache", f"{_PREFIX}Cache", "GetItems", None, ())
            for bus, _ in applications
        ])  # fmt: skip
        return [item for cache in caches if cache for item in cache[0]]

    def _read_missing(self, items: list[Item]) -> list[Node]:
        """What shows and is in no cache, because it came up while its application started."""
        known = {(item[0][0], item[0][1]) for item in items}
        cached = Counter((item[0][0], item[2][1]) for item in items)
        front = [
            node for node, count in ((_node(item), _child_count(item)) for item in items)
            if cached[node.bus, node.path] < count <= _CHILDREN_MAX and _is_open(node)
        ]  # fmt: skip
        found: list[Node] = []
        for _ in range(_DEPTH_MAX):
            families = self._ask([
                (node.bus, node.path, f"{_PREFIX}Accessible", "GetChildren", None, ())
                for node in front
            ])  # fmt: skip
            places = [
                (str(child[0]), str(child[1]), parent.path)
                for parent, family in zip(front, families, strict=True) if family
                for child in family[0] if tuple(child) not in known and child[1] != _NULL
            ]  # fmt: skip
            if not places:
                break
            known.update((bus, path) for bus, path, _ in places)
            born = [node for node in self._describe(places) if "showing" in node.states]
            found += born
            front = [node for node in born if _is_open(node)]
        return found

    def _describe(self, places: Sequence[tuple[str, str, str]]) -> list[Node]:
        """Nodes of objects of which only bus, path and parent are known."""
        answers = iter(self._ask([
            call for bus, path, _ in places for call in (
                (bus, path, f"{_PREFIX}Accessible", "GetState", None, ()),
                (bus, path, f"{_PREFIX}Accessible", "GetRole", None, ()),
                (bus, path, f"{_PREFIX}Accessible", "GetInterfaces", None, ()),
                (bus, path, _PROPERTIES, "Get", "ss", (f"{_PREFIX}Accessible", "Name")),
                (bus, path, _PROPERTIES, "Get", "ss", (f"{_PREFIX}Accessible", "Description")),
            )
        ]))  # fmt: skip
        nodes = []
        for (bus, path, parent), *said in zip(places, *[answers] * 5, strict=True):
            if all(said):
                bits, role, interfaces, name, description = (answer[0] for answer in said)
                item = ((bus, path), None, (bus, parent), 0, 0, interfaces)
                nodes.append(_node((*item, name[1], role, description[1], bits)))
        return nodes

    def _read_cells(self, nodes: list[Node]) -> list[Node]:
        """The first cells of a spreadsheet, which its cache leaves out."""
        sheets = [
            node for node in nodes
            if "Table" in node.interfaces and "manages descendants" in node.states
        ][:_TABLES_MAX]  # fmt: skip
        places = self._ask([
            (sheet.bus, sheet.path, f"{_PREFIX}Table", "GetAccessibleAt", "ii", (row, column))
            for sheet in sheets for row in range(SHEET_ROWS) for column in range(SHEET_COLUMNS)
        ])  # fmt: skip
        size = SHEET_ROWS * SHEET_COLUMNS
        cells = {
            (str(place[0][0]), str(place[0][1])): sheets[number // size].path
            for number, place in enumerate(places) if place and place[0][1] != _NULL
        }  # fmt: skip
        known = {(node.bus, node.path) for node in nodes}
        places = [(*cell, table) for cell, table in cells.items() if cell not in known]
        return self._describe(places)

    def _fill(self, nodes: list[Node]) -> None:
        placed = [node for node in nodes if "Component" in node.interfaces]
        written = [n for n in nodes if "Text" in n.interfaces and n.role in _TEXT_ROLES]
        answers = self._ask([
            (node.bus, node.path, f"{_PREFIX}Component", "GetExtents", "u", (0,)) for node in placed
        ] + [
            (node.bus, node.path, f"{_PREFIX}Text", "GetText", "ii", (0, -1)) for node in written
        ])  # fmt: skip
        for node, answer in zip(placed, answers, strict=False):
            node.extent = tuple(answer[0]) if answer else None
        for node, answer in zip(written, answers[len(placed) :], strict=True):
            node.text = str(answer[0]) if answer else ""

    def _name_rows(self, nodes: list[Node]) -> None:
        """Name the cells of a list that hold an icon and a text: only their children tell."""
        bare = [n for n in nodes if n.role == "table cell" and not n.name and not n.text]
        answers = self._ask([
            (node.bus, node.path, f"{_PREFIX}Accessible", "GetChildren", None, ())
            for node in bare[:_BARE_CELLS_MAX]
        ])  # fmt: skip
        parts = [
            (node, bus, path)
            for node, answer in zip(bare, answers, strict=False)
            for bus, path in (answer or ([],))[0]
        ]
        names = self._ask([
            (bus, path, _PROPERTIES, "Get", "ss",
             (f"{_PREFIX}Accessible", "Name"))
            for _, bus, path in parts
        ])  # fmt: skip
        for (node, _, _), name in zip(parts, names, strict=True):
            if name:
                node.name = f"{node.name} {name[0][1]}".strip()

    def _ask(self, calls: Sequence[Call]) -> list[Any]:
        """Send all calls, then collect the answers; None where there was an error or none."""
        connection = self._connection
        places: dict[int, int] = {}
        answers: list[Any] = [None] * len(calls)
        try:
            for place, (bus, path, interface, method, signature, body) in enumerate(calls):
                address = DBusAddress(path, bus, interface)
                serial = next(connection.outgoing_serial)
                connection.send_message(
                    new_method_call(address, method, signature, body), serial=serial
                )
                places[serial] = place
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            while places and (left := deadline - time.monotonic()) > 0:
                message = connection.receive(timeout=left)
                place = places.pop(message.header.fields.get(HeaderFields.reply_serial), -1)
                if place >= 0 and message.header.message_type == MessageType.method_return:
                    answers[place] = message.body
        except TimeoutError:
            pass  # the application hangs: what it did not say stays None
        except (OSError, EOFError) as error:
            raise DesktopLostError(f"the accessibility bus is gone: {error}") from error
        return answers


class _Connection(DBusConnection):  # type: ignore[misc]  # jeepney has no types
    """Waits for nothing without an end: jeepney itself waits for its greeting for ever."""

    def send_and_get_reply(self, message: Message, *, timeout: float | None = None) -> Message:
        wait_s = _GREET_S if timeout is None else timeout
        return super().send_and_get_reply(message, timeout=wait_s)


def _connect(path: str) -> DBusConnection:
    socket = prep_socket(path, timeout=_GREET_S)
    try:
        return _Connection(socket)
    except (OSError, EOFError):
        socket.close()
        raise


def _find_bus(session_bus: str, root: str, timeout_s: float) -> DBusConnection:
    deadline = time.monotonic() + timeout_s
    question = new_method_call(
        DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus"), "GetAddress"
    )
    while True:
        try:
            with _connect(session_bus) as session:
                answer = session.send_and_get_reply(question, timeout=timeout_s)
            if answer.header.message_type == MessageType.method_return:
                options = dict(
                    part.split("=", 1) for part in answer.body[0].partition(":")[2].split(",")
                )
                return _connect(f"{root}{options['path']}")
        except (OSError, EOFError, TimeoutError) as error:
            if time.monotonic() > deadline:
                raise DesktopLostError(f"no accessibility bus: {error}") from error
        if time.monotonic() > deadline:
            raise DesktopLostError("no accessibility bus: the launcher does not own its name")
        time.sleep(_POLL_S)


def _states(words: Sequence[int]) -> frozenset[str]:
    bits = words[0] | words[1] << 32
    return frozenset(name for number, name in enumerate(_STATES) if bits >> number & 1)


def _role(number: int) -> str:
    return _ROLES[number] if number < len(_ROLES) else f"role {number}"


def _child_count(item: Item) -> int:
    return item[4] if isinstance(item[4], int) else len(item[3])


def _is_open(node: Node) -> bool:
    """Whether children of this are worth asking for: they may show, and can be counted."""
    is_closed = node.role == "menu" and "selected" not in node.states
    return "showing" in node.states and "manages descendants" not in node.states and not is_closed


def _node(item: Item) -> Node:
    interfaces = item[5] if isinstance(item[5], list) else item[4]
    name, role, description, words = item[-4:]
    return Node(
        bus=str(item[0][0]),
        path=str(item[0][1]),
        parent=str(item[2][1]),
        role=_role(role),
        name=str(name),
        description=str(description),
        states=_states(words),
        interfaces=frozenset(str(name).removeprefix(_PREFIX) for name in interfaces),
    )
