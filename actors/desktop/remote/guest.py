"""A client of OSWorld's server on another machine: one host and port, and nothing takes for ever.

Nothing is sent anywhere else: redirects are not followed, and no proxy is asked.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guestclient import HttpGuest
from envs_node.actors.desktop.remote.address import Address

REQUEST_TIMEOUT_S = 130.0
"""For a whole request; OSWorld's server gives a command 120 s."""
_CONNECT_S = 10.0


class RemoteGuest(HttpGuest):
    """OSWorld's server on one machine.

    Args:
        token: what it wants as `Authorization: Bearer`, where it wants one; never shown.
        timeout_s: for a whole request, from the first byte sent to the last one read.
    """

    def __init__(
        self, address: Address, *, token: str = "", timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self.address = address
        self._token = token
        self._timeout_s = timeout_s
        self._calls = _Calls()

    def with_timeout(self, timeout_s: float) -> RemoteGuest:
        """The same with less patience; what breaks off this one breaks off that."""
        other = RemoteGuest(self.address, token=self._token, timeout_s=timeout_s)
        other._calls = self._calls
        return other

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post JSON; the JSON object that is the answer.

        Raises:
            GuestRefusedError: the answer is an error.
            DesktopLostError: there is none, or it is no JSON object.
        """
        return _object(path, self.post(path, body))

    def look(self, path: str) -> dict[str, Any]:
        """Get a JSON object. Raises like `ask`."""
        return _object(path, self.get(path))

    def break_off(self) -> None:
        """Have every request fail, those under way and those to come. From any thread."""
        self._calls.break_off()

    def require_open(self) -> None:
        """Raise `DesktopLostError` after `break_off`."""
        if self._calls.is_broken_off:
            raise DesktopLostError(f"{self.address} is no longer driven from here")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        self.require_open()
        connection = _Connection(self.address, self._timeout_s)
        deadline = threading.Timer(self._timeout_s, connection.break_off)
        deadline.daemon = True
        deadline.start()
        try:
            with self._calls.under_way(connection):
                yield connection
        finally:
            deadline.cancel()
            connection.close()
            connection.forget()


class _Calls:
    """The connections of one client, and of those made from it."""

    def __init__(self) -> None:
        self.is_broken_off = False
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()

    @contextmanager
    def under_way(self, connection: _Connection) -> Iterator[None]:
        """As long as this lasts it may be broken off."""
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.remove(connection)

    def break_off(self) -> None:
        with self._lock:
            self.is_broken_off = True
            for connection in self._open:
                connection.break_off()


class _Connection(http.client.HTTPConnection):
    """Can be cut off by another thread, in the middle of an answer, too."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        super().__init__(address.host, address.port, timeout=min(timeout_s, _CONNECT_S))
        self._whole_s = timeout_s
        self._handle: socket.socket | None = None
        self._is_broken_off = False

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self._whole_s)
        self._handle = self.sock.dup()  # an answer takes the other with it
        if self._is_broken_off:
            self.break_off()

    def break_off(self) -> None:
        """Have whoever reads or writes fail."""
        self._is_broken_off = True
        if self._handle is not None:
            with suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Let go of what `break_off` takes hold of."""
        if self._handle is not None:
            self._handle.close()


def _object(path: str, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise DesktopLostError(f"{path} was not answered with JSON: {error}") from error
    except RecursionError as error:
        raise DesktopLostError(f"{path} was answered with JSON too deep to read") from error
    if not isinstance(answer, dict):
        raise DesktopLostError(f"{path} was answered with {type(answer).__name__}, not an object")
    return answer
