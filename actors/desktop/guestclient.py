"""A client of the server inside a desktop: through a unix socket, or however it is reached."""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from envs_node.actors.desktop.doors import connect_inside
from envs_node.actors.desktop.errors import DesktopLostError

SOCKET_PATH = "/run/share/guest.sock"
_BODY_BYTES_MAX = 256 << 20
"""As much as the server itself takes."""
_LISTEN_S, _POLL_S = 1.0, 0.002


class GuestRefusedError(DesktopLostError):
    """The server inside answered with an error."""

    def __init__(self, path: str, status: int, body: str) -> None:
        super().__init__(f"{path} answered {status}: {body[:300]}")
        self.status = status


class HttpGuest:
    """Asks OSWorld's interface inside a desktop. Every request has its own connection."""

    def _connection(self) -> AbstractContextManager[http.client.HTTPConnection]:
        """One for a single request: made when it is first used, and closed behind it."""
        raise NotImplementedError

    def _headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {}

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        """Post JSON; the body of the answer.

        Raises:
            GuestRefusedError: the answer is an error.
            DesktopLostError: there is no answer.
        """
        return self._request("POST", path, json.dumps(body).encode(), "application/json")

    def get(self, path: str) -> bytes:
        """Get the body of an answer."""
        return self._request("GET", path, b"", "application/json")

    def upload(self, path: str, data: bytes) -> None:
        """Write a file inside."""
        mark = uuid4().hex
        parts = [
            f'--{mark}\r\nContent-Disposition: form-data; name="file_path"\r\n\r\n{path}\r\n',
            f'--{mark}\r\nContent-Disposition: form-data; name="file_data"; filename="data"\r\n'
            "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        ]
        body = "".join(parts).encode() + data + f"\r\n--{mark}--\r\n".encode()
        self._request("POST", "/setup/upload", body, f"multipart/form-data; boundary={mark}")

    def _request(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        try:
            with self._connection() as connection:
                headers = {"Content-Type": kind, **self._headers()}
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                data = answer.read(_BODY_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise DesktopLostError(f"the server inside did not answer {path}: {error}") from error
        if len(data) > _BODY_BYTES_MAX:
            raise DesktopLostError(f"the server inside answers {path} without an end")
        if answer.length:
            raise DesktopLostError(f"the answer to {path} lacks its last {answer.length} bytes")
        if answer.status != http.client.OK:
            raise GuestRefusedError(path, answer.status, data.decode(errors="replace"))
        return data


class Guest(HttpGuest):
    """The server inside a desktop of this host, through its unix socket."""

    def __init__(self, path: Path, *, timeout_s: float = 130.0) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def _connection(self) -> AbstractContextManager[http.client.HTTPConnection]:
        return closing(_UnixConnection(self._path, self._timeout_s))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        deadline = time.monotonic() + _LISTEN_S
        while not self._is_connected(deadline):
            time.sleep(_POLL_S)

    def _is_connected(self, deadline: float) -> bool:
        """Connect; its name is there a moment before it listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            connect_inside(self.sock, self._path)
        except ConnectionRefusedError:
            self.sock.close()
            if time.monotonic() > deadline:
                raise
            return False
        return True
