"""A connection to a desktop's X server, through the path of its socket; and its windows."""

from __future__ import annotations

import array
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import msgspec
from Xlib import X, display, error, threaded  # noqa: F401 - `threaded` makes its locks real
from Xlib.protocol import display as protocol_display

from envs_node.actors.desktop.doors import connect_inside
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guest.ready import wait_ready

LOST = (error.ConnectionClosedError, error.DisplayError, OSError)
ANSWER_TIMEOUT_S = 5.0
"""How long a server may take for one answer. A busy host may hold it up for a while."""
REPLY_BYTES_MAX = 16 << 20
"""A server that announces a larger answer is hung up on."""
_POLL_S = 0.003
_WINDOWS_MAX = 128
"""The topmost are told of."""
_PROPERTY_WORDS_MAX = 4096
_TEXT_CHARACTERS_MAX = 1000
_MENU_KINDS = ("DROPDOWN_MENU", "POPUP_MENU", "MENU", "COMBO")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A top-level window."""

    id: int
    title: str
    app_class: str
    x: int
    y: int
    width: int
    height: int
    is_hidden: bool
    is_splash: bool = False
    """A picture that goes by itself, while its application starts."""
    margins: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Left, right, top, bottom: what of it is the shadow that it draws itself."""


class XConnection:
    """One client of a desktop's X server. Threads may share it, and then wait for each other."""

    def __init__(
        self, path: Path, timeout_s: float, check: Callable[[], object] = lambda: None
    ) -> None:
        """Connect as soon as the server answers.

        Args:
            check: called while it does not; raises when it never will.

        Raises:
            DesktopLostError: it did not within the timeout.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.display = _PathDisplay(str(path))
                break
            except LOST as problem:
                check()
                if time.monotonic() > deadline:
                    raise DesktopLostError(f"no X server at {path}: {problem}") from problem
                time.sleep(_POLL_S)
        self.display.set_error_handler(_ignore)
        self.root = self.display.screen().root
        self._atoms: dict[str, int] = {}

    def has_window_manager(self) -> bool:
        """Whether a window manager has taken the screen."""
        return bool(self._property(self.root, "_NET_SUPPORTING_WM_CHECK"))

    def windows(self) -> tuple[Window, ...]:
        """The top-level windows, bottom to top."""
        ids = _words(self._property(self.root, "_NET_CLIENT_LIST_STACKING"))
        found = (self._describe(number) for number in ids[-_WINDOWS_MAX:])
        return tuple(window for window in found if window is not None)

    def has_menu(self) -> bool:
        """Whether a menu is open."""
        kinds = {self._atom(f"_NET_WM_WINDOW_TYPE_{name}") for name in _MENU_KINDS}
        try:
            for child in self.root.query_tree().children:
                if kinds.isdisjoint(_words(self._property(child, "_NET_WM_WINDOW_TYPE"))):
                    continue
                with suppress(error.XError):  # it is gone
                    if child.get_attributes().map_state == X.IsViewable:
                        return True
        except LOST as problem:
            raise DesktopLostError(f"the X server is gone: {problem}") from problem
        return False

    def focused(self) -> int:
        """Id of the active window; 0 for none."""
        return next(iter(_words(self._property(self.root, "_NET_ACTIVE_WINDOW"))), 0)

    def close(self) -> None:
        """Hang up."""
        try:
            self.display.close()
        except LOST:
            self.display.display.socket.close()

    def _atom(self, name: str) -> int:
        if name not in self._atoms:
            self._atoms[name] = self.display.intern_atom(name)
        return self._atoms[name]

    def _property(self, window: Any, name: str) -> Any:
        try:
            answer = window.get_property(
                self._atom(name), X.AnyPropertyType, 0, _PROPERTY_WORDS_MAX
            )
        except error.XError:  # the window is gone
            return None
        except LOST as problem:
            raise DesktopLostError(f"the X server is gone: {problem}") from problem
        return answer.value if answer else None

    def _describe(self, number: int) -> Window | None:
        window = self.display.create_resource_object("window", number)
        title = self._property(window, "_NET_WM_NAME") or self._property(window, "WM_NAME") or b""
        app_class = self._property(window, "WM_CLASS") or b""
        state = _words(self._property(window, "_NET_WM_STATE"))
        kinds = _words(self._property(window, "_NET_WM_WINDOW_TYPE"))
        margins = tuple(_words(self._property(window, "_GTK_FRAME_EXTENTS")))
        try:
            shape = window.get_geometry()
            place = window.translate_coords(self.root, 0, 0)
        except error.XError:
            return None
        except LOST as problem:
            raise DesktopLostError(f"the X server is gone: {problem}") from problem
        return Window(
            id=number,
            title=_text(title),
            app_class=_text(app_class).replace("\0", " ").strip(),
            x=-place.x,
            y=-place.y,
            width=shape.width,
            height=shape.height,
            margins=margins if len(margins) == 4 else (0, 0, 0, 0),
            is_hidden=self._atom("_NET_WM_STATE_HIDDEN") in state,
            is_splash=self._atom("_NET_WM_WINDOW_TYPE_SPLASH") in kinds,
        )


def _text(value: object) -> str:
    """A property as text. Any program may set it, to anything, of any length."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text[:_TEXT_CHARACTERS_MAX] if isinstance(text, str) else ""


def _words(value: object) -> list[int]:
    """A property as numbers; none if it is something else."""
    return value.tolist() if isinstance(value, array.array) else []


def _ignore(*_: object) -> None:
    """A window that vanished between two requests is no news."""


def _connect(path: str, *_: object) -> socket.socket:
    handle = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connect_inside(handle, path)
    except OSError:
        handle.close()
        raise
    return handle


# python-xlib knows displays by number only. These constructors are its own, bound to a resolver
# that takes the display's name for the path of its socket.
_BY_PATH = SimpleNamespace(
    get_display=lambda name: (name, None, "", 0, 0),
    get_socket=_connect,
    get_auth=lambda *_: (b"", b""),
)


def _rebind(function: Any, **names: object) -> Any:
    return FunctionType(
        function.__code__, {**function.__globals__, **names}, None,
        function.__defaults__, function.__closure__,
    )  # fmt: skip


def _select(readers: Any, writers: Any, others: Any, timeout_s: float | None) -> Any:
    """Wait as python-xlib does, but not for a server that does not answer: hang up on that."""
    if timeout_s is None and not any(wait_ready(readers, writers, ANSWER_TIMEOUT_S)):
        for handle in readers:
            handle.shutdown(socket.SHUT_RDWR)  # what waits reads the end, and says so
    return (*wait_ready(readers, writers, timeout_s), others)


class _PathProtocol(display._BaseDisplay):  # type: ignore[misc]  # Xlib is untyped
    recv_packet_len: int

    send_and_recv = _rebind(
        protocol_display.Display.send_and_recv,
        select=SimpleNamespace(select=_select, error=OSError),
    )

    def __init__(self, path: str) -> None:
        self._atom_cache: dict[str, int] = {}
        self.resource_classes = display._resource_baseclasses.copy()
        _rebind(protocol_display.Display.__init__, connect=_BY_PATH)(self, path)

    def parse_response(self, request: int) -> Any:
        """Take in what has come. Room for an answer is made before it is there: bound it."""
        has_come = super().parse_response(request)
        if self.recv_packet_len > REPLY_BYTES_MAX:
            self.recv_packet_len = REPLY_BYTES_MAX
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)  # as in `_select`
        return has_come


class _PathDisplay(display.Display):  # type: ignore[misc]  # Xlib is untyped
    __init__ = _rebind(display.Display.__init__, _BaseDisplay=_PathProtocol)
