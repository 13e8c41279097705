"""Stands between OSWorld's code and the desktop: watches every answer, and ends what got none.

OSWorld's getters take a desktop that does not answer for one on which nothing was found. So each
request is written down with its answer, and the first that is no answer ends the verdict: by an
exception that no `except Exception` catches, and by a mark that outlives a bare `except`. A
connection that goes past the guard is refused, whatever library opens it.

Loaded by file in the checker's own Python; knows nothing of envs_node.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

_requests = importlib.import_module("requests")

_ADDRESS = "127.0.0.1"
_SERVER_PORT = 5000
_APPLICATION_PORTS = (9222, 1337, 8080)
"""Chrome's debugging port twice, VLC's HTTP face: closed when the application is."""
_CONNECT_S, _PROBE_S = 5.0, 5.0
_LONG = 2.0
"""Where OSWorld grants a request a time-out of its own, it may take this many times as long."""
_EXCHANGES_MAX = 500
_REFUSALS = frozenset({401, 403, 405, 407, 408, 421, 425, 429}) | frozenset(range(300, 400))
"""OSWorld's server answers none of its callers so; who stands before it may."""
_ANSWERS = {
    "/execute": "output", "/setup/execute": "output", "/terminal": "output",
    "/accessibility": "AT", "/screen_size": "width", "/window_size": "width",
    "/desktop_path": "desktop_path", "/list_directory": "directory_tree",
}  # fmt: skip
"""Endpoints that answer with a JSON object, and a field that OSWorld reads of each."""


class LostError(BaseException):
    """A request got no answer. No `except Exception` of a getter may hide it."""


class UnwatchedError(BaseException):
    """The checker opened a connection by itself, so that nobody would know how it ended."""


class RefusedError(_requests.exceptions.ConnectionError):  # type: ignore[misc, name-defined]
    """The checker wanted to reach something else than the desktop."""


class Guard:
    """Watches one verdict, in a process of its own: what is patched here stays so."""

    def __init__(self, token: str, read_s: float) -> None:
        """Watch nothing yet.

        Args:
            token: what the desktop's server wants with each request, if it wants one.
            read_s: how long an answer may stay away.
        """
        self.phase = "prepare"
        self.exchanges: list[dict[str, Any]] = []
        self.lost = ""
        """How the desktop failed the checker; empty while every request got its answer."""
        self._token = token
        self._read_s = read_s
        self._is_inside = False
        self._plain = _requests.Session.request

    def install(self) -> None:
        """Put this guard before `requests`, sockets, and Chrome's debugging port if need be."""
        guard, plain = self, self._plain

        def request(session: Any, method: str, url: str, **named: Any) -> Any:
            return guard._request(plain, session, method, str(url), named)

        _requests.Session.request = request
        sys.addaudithook(self._hear_of)
        playwright = sys.modules.get("playwright.sync_api")
        if hasattr(playwright, "__file__"):  # else it stands for one that is not installed
            self._watch_browsers(playwright)

    def pace(self, module: Any) -> None:
        """Let a module of OSWorld's sleep no longer once the desktop is lost: it means to retry."""
        guard = self

        class Time:
            def __getattr__(self, name: str) -> Any:
                return getattr(time, name)

            def sleep(self, seconds: float) -> None:
                if guard.lost:
                    raise LostError(guard.lost)
                time.sleep(seconds)

        vars(module)["time"] = Time()

    def probe(self) -> bool:
        """Ask the desktop for its terminal, as OSWorld's set-up does."""
        self.phase = "probe"
        wait_s = min(_PROBE_S, self._read_s)
        try:
            answer = _requests.get(
                f"http://{_ADDRESS}:{_SERVER_PORT}/terminal", timeout=(wait_s, wait_s)
            )
        except (_requests.exceptions.RequestException, LostError):
            return False
        return bool(answer.status_code == 200)

    def _request(
        self, plain: Any, session: Any, method: str, url: str, named: dict[str, Any]
    ) -> Any:
        where = urlsplit(url)
        row = {"method": method.upper(), "path": where.path, "status": 0, "bytes": 0, "error": ""}
        if where.hostname != _ADDRESS or where.port not in (_SERVER_PORT, *_APPLICATION_PORTS):
            self._note(**{**row, "path": f"{where.netloc}{where.path}"[:300], "error": "refused"})
            raise RefusedError(f"{where.netloc} is not the desktop")
        if self.lost:
            raise LostError(self.lost)
        named = {**named, "timeout": self._time_out(named.get("timeout"))}
        named |= {"stream": False, "allow_redirects": False}
        if self._token:
            headers = {"Authorization": f"Bearer {self._token}", **(named.get("headers") or {})}
            named["headers"] = headers
        self._is_inside = True
        try:
            answer = plain(session, method, url, **named)
        except _requests.exceptions.RequestException as error:
            if where.port in _APPLICATION_PORTS and "Connection refused" in str(error):
                self._note(**{**row, "error": "closed"})
                raise
            self._note(**{**row, "error": type(error).__name__})
            self._lose(row, f"got no answer: {type(error).__name__}")
        finally:
            self._is_inside = False
        self._note(**{**row, "status": answer.status_code, "bytes": len(answer.content)})
        fault = _fault(where.path, answer, is_server=where.port == _SERVER_PORT)
        if fault:
            self._lose(row, fault)
        return answer

    def _time_out(self, given: Any) -> tuple[float, float]:
        """How long to wait for the connection, and for each piece of the answer."""
        read_s = given[1] if isinstance(given, tuple) else given
        if read_s is None:
            return _CONNECT_S, self._read_s
        return _CONNECT_S, min(float(read_s), _LONG * self._read_s)

    def _lose(self, row: dict[str, Any], how: str) -> None:
        self.lost = self.lost or f"{row['method']} {row['path']} {how}"
        raise LostError(self.lost)

    def _note(self, **row: Any) -> None:
        if len(self.exchanges) < _EXCHANGES_MAX:
            self.exchanges.append({"phase": self.phase, **row})

    def _hear_of(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a connection that did not come this way; Python tells of each before it is."""
        if event != "socket.connect" or self._is_inside or not isinstance(arguments[1], tuple):
            return
        place = ":".join(str(part) for part in arguments[1][:2])
        self._note(method="CONNECT", path=place, status=0, bytes=0, error="unwatched")
        raise UnwatchedError(f"the checker connects to {place} past its guard")

    def _watch_browsers(self, playwright: Any) -> None:
        """Watch connections to Chrome's debugging port, which another process makes."""
        browsers, failure = playwright.BrowserType, playwright.Error
        guard, plain = self, browsers.connect_over_cdp

        def connect(browser: Any, *given: Any, **named: Any) -> Any:
            row = {"method": "CDP", "path": "/", "status": 0, "bytes": 0, "error": ""}
            if guard.lost:
                raise LostError(guard.lost)
            try:
                found = plain(browser, *given, **named)
            except failure as error:
                is_closed = "ECONNREFUSED" in str(error)
                guard._note(**{**row, "error": "closed" if is_closed else type(error).__name__})
                if not is_closed:
                    guard._lose(row, f"got no answer: {type(error).__name__}")
                raise
            guard._note(**{**row, "status": 101})
            return found

        browsers.connect_over_cdp = connect


def _fault(path: str, answer: Any, *, is_server: bool) -> str:
    """Say why what came is no answer; empty when it is one."""
    if answer.status_code >= 500:
        return f"was answered with {answer.status_code}"
    if not is_server:
        return ""
    if answer.status_code in _REFUSALS:
        return f"was answered with {answer.status_code}"
    headers = answer.headers
    is_bounded = "Content-Length" in headers or headers.get("Transfer-Encoding") == "chunked"
    if answer.content and not is_bounded:
        return "was answered without a length, so that nobody knows whether it is whole"
    if answer.status_code == 200 and path in _ANSWERS:
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            return "was answered with broken JSON"
        if not isinstance(found, dict) or _ANSWERS[path] not in found:
            return f"was answered without {_ANSWERS[path]!r}"
    return ""
