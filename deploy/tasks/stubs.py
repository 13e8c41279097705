"""Desktops with nothing on them, and none at all: what a sound checker never calls a success."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from envs_node.actors.verifier.checker import Door

_LOOPBACK = "127.0.0.1"
_RAN = {"status": "success", "output": "", "error": "", "returncode": 0}
_TREE = '<desktop-frame xmlns:st="https://accessibility.ubuntu.example.org/ns/state"/>'
_HOME = {"type": "directory", "name": "user", "children": []}
EMPTY: dict[str, object] = {
    "/terminal": {"output": "", "status": "success"},
    "/accessibility": {"AT": _TREE},
    "/execute": _RAN,
    "/setup/execute": _RAN,
    "/setup/launch": "launched",
    "/setup/open_file": "opened",
    "/setup/upload": "uploaded",
    "/setup/activate_window": "activated",
    "/setup/close_window": "closed",
    "/screen_size": {"width": 1920, "height": 1080},
    "/desktop_path": {"desktop_path": "/home/user/Desktop"},
    "/list_directory": {"directory_tree": _HOME},
}
"""What a desktop answers to OSWorld's requests, by path, when nothing is on it."""


class _Nothing(http.server.BaseHTTPRequestHandler):
    """Does what it is told, has no file and no window, and every command prints nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = EMPTY.get(self.path)
        body = json.dumps({"error": "nothing here"} if said is None else said).encode()
        self.send_response(404 if said is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


@contextmanager
def empty_desktop() -> Iterator[Door]:
    """A machine that is alive, and on which there is nothing."""
    with http.server.ThreadingHTTPServer((_LOOPBACK, 0), _Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Door(_LOOPBACK, server.server_address[1])
        finally:
            server.shutdown()


@contextmanager
def dead_desktop() -> Iterator[Door]:
    """A machine that refuses every connection: its port is taken, and nobody listens there."""
    with socket.socket() as taken:
        taken.bind((_LOOPBACK, 0))
        yield Door(_LOOPBACK, taken.getsockname()[1])
