"""Opens and closes tabs of the desktop's Chrome over DevTools, with the standard library alone.

Run inside the desktop as a script: `open|close SECONDS URL…`. Whatever fails is the last line on
standard error, and the status is 1.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

_PORTS = (9222, 1337)
"""Where OSWorld's tasks have DevTools answer: through socat, and Chrome itself."""
_POLL_S, _ANSWER_S = 0.1, 10.0
_FRAME_BYTES_MAX = 16 << 20
_DOWNLOADS = "net::ERR_ABORTED"
"""What Chrome says when an address gave a file to keep, and no page."""


class TabsError(Exception):
    """The tabs are not as they were asked to be."""


class _DevTools:
    """One Chrome's DevTools, found once it answers."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._port = self._find()

    def _find(self) -> int:
        problem = ""
        while time.monotonic() < self._deadline:
            for port in _PORTS:
                try:
                    self._ask("GET", "version", port)
                    return port
                except (OSError, ValueError) as error:
                    problem = str(error)
            time.sleep(_POLL_S)
        ports = " and ".join(map(str, _PORTS))
        raise TabsError(
            f"no DevTools answer on the ports {ports} ({problem}): was Chrome launched?"
        )

    def pages(self) -> list[dict[str, Any]]:
        """The tabs, the newest first."""
        return [page for page in json.loads(self._get("list")) if page["type"] == "page"]

    def open(self, url: str) -> None:
        """Open a tab and wait until its page is loaded."""
        page = json.loads(self._ask("PUT", "new?about:blank", self._port))
        with _Socket(
            self._port, urlsplit(page["webSocketDebuggerUrl"]).path, self._deadline
        ) as tab:
            tab.call("Page.enable")
            problem = tab.call("Page.navigate", url=url).get("errorText", "")
            if problem and problem != _DOWNLOADS:
                raise TabsError(f"{url} cannot be opened: {problem}")
            if not problem:
                tab.wait("Page.loadEventFired", f"{url} is not loaded in time")

    def close(self, page: dict[str, Any]) -> None:
        """Close a tab and wait until it is gone."""
        self._get(f"close/{page['id']}")
        while any(other["id"] == page["id"] for other in self._pages_or_none()):
            if time.monotonic() > self._deadline:
                raise TabsError(f"the tab of {page['url']} stays open")
            time.sleep(_POLL_S)

    def _pages_or_none(self) -> list[dict[str, Any]]:
        """Chrome ends with its last tab."""
        try:
            return self.pages()
        except (OSError, ValueError):
            return []

    def _get(self, path: str) -> bytes:
        return self._ask("GET", path, self._port)

    def _ask(self, method: str, path: str, port: int) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/{path}", method=method)
        with self._direct.open(request, timeout=_ANSWER_S) as answer:
            data: bytes = answer.read()
        return data


class _Socket:
    """A web socket to one tab: texts of JSON, one at a time."""

    def __init__(self, port: int, path: str, deadline: float) -> None:
        self._deadline = deadline
        self._number = 0
        self._events: list[str] = []
        self._stream = socket.create_connection(("127.0.0.1", port), _ANSWER_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self._stream.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._read(1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise TabsError(f"DevTools refuse a socket: {head[:60]!r}")

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def call(self, method: str, **parameters: str) -> dict[str, Any]:
        """Ask, and wait for the answer; what happens meanwhile is kept for `wait`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._send(1, json.dumps(message).encode())
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise TabsError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(str(answer.get("method")))

    def wait(self, event: str, problem: str) -> None:
        """Wait until something happens, or has happened."""
        while event not in self._events:
            try:
                self._events.append(str(self._receive().get("method")))
            except TimeoutError:
                raise TabsError(problem) from None

    def _send(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        size = len(data)
        if size < 126:
            head = bytes([0x80 | kind, 0x80 | size])
        else:
            head = bytes([0x80 | kind, 0x80 | 127]) + size.to_bytes(8, "big")
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        self._stream.sendall(head + mask + masked)

    def _receive(self) -> dict[str, Any]:
        """The next message, of one frame or several."""
        whole = b""
        while True:
            kind, size = self._read(2)
            length = size & 0x7F
            if length > 125:
                length = int.from_bytes(self._read(2 if length == 126 else 8), "big")
            if length > _FRAME_BYTES_MAX:
                raise TabsError(f"DevTools send {length} bytes at once")
            data = self._read(length)
            opcode = kind & 0x0F
            if opcode == 8:
                raise TabsError("the tab went away while it was loaded")
            if opcode == 9:
                self._send(10, data)
            elif opcode in (0, 1):
                whole += data
                if kind & 0x80:
                    message: dict[str, Any] = json.loads(whole)
                    return message

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._stream.settimeout(max(self._deadline - time.monotonic(), 0.01))
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise TabsError("DevTools have hung up")
            data += piece
        return data


def open_tabs(urls: list[str], seconds: float) -> None:
    """Open addresses in tabs; the first takes the place of the tab that Chrome began with."""
    tools = _DevTools(time.monotonic() + seconds)
    before = tools.pages()
    for number, url in enumerate(urls):
        tools.open(url)
        if number == 0 and before:
            tools.close(before[-1])


def close_tabs(urls: list[str], seconds: float) -> None:
    """Close one tab of each address."""
    tools = _DevTools(time.monotonic() + seconds)
    for url in urls:
        pages = tools.pages()
        page = next((page for page in pages if _plain(page["url"]) == _plain(url)), None)
        if page is None:
            shown = ", ".join(page["url"] for page in pages)
            raise TabsError(f"no tab shows {url}; open are {shown}")
        tools.close(page)


def _plain(url: str) -> tuple[str, str, str]:
    """An address without what a browser adds to it or takes from it."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = "http" if parts.scheme == "https" else parts.scheme
    host = parts.netloc.lower().removeprefix("www.")
    return scheme, host, parts.path.rstrip("/") + ("?" + parts.query if parts.query else "")


def main() -> None:
    """Do what the command line says."""
    verb, seconds, *urls = sys.argv[1:]
    try:
        {"open": open_tabs, "close": close_tabs}[verb](urls, float(seconds))
    except (TabsError, OSError, ValueError, KeyError) as error:
        sys.exit(f"{error or type(error).__name__}")


if __name__ == "__main__":
    main()
