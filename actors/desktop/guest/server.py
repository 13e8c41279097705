"""OSWorld's in-guest HTTP interface, with the standard library alone.

It answers on the desktop's own loopback, port 5000, for OSWorld's getters and agents, and on a
unix socket, through which the host reaches it. It runs as the desktop's user, who may do all this
anyway. Paths, status codes and answers are those of OSWorld's server. Beyond loopback (a desktop
that is a machine of its own) it wants a token with every request, and does not start without.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import quote, urlsplit

from envs_node.actors.desktop.guest import (
    accessibility,
    files,
    programs,
    screen,
    wallpaper,
    windows,
)
from envs_node.actors.desktop.guest.answer import Answer, Download, Fields, RefusedError, failed
from envs_node.actors.desktop.guest.body import parse_body
from envs_node.actors.desktop.guest.recording import Recorder

SOCKET_PATH = "/run/share/guest.sock"
PORT = 5000
BODY_BYTES_MAX = 256 << 20
HOST_VARIABLE, TOKEN_VARIABLE = "ENVS_GUEST_HOST", "ENVS_GUEST_TOKEN"
"""Where it answers, 127.0.0.1 unless given, and the token that it wants then."""
_REQUESTS_MAX = 32
"""Under way at once; more wait for their turn."""

_Route: TypeAlias = Callable[[Fields], Answer]
_RECORDER, _LAUNCHES = Recorder(), programs.Launches()
_GET: Mapping[str, _Route] = {
    "/screenshot": screen.screenshot,
    "/terminal": accessibility.terminal,
    "/accessibility": accessibility.tree,
    "/platform": lambda _: "Linux",
    "/setup/launched": _LAUNCHES.last,
    "/cursor_position": screen.cursor_position,
    "/health": lambda _: {"status": "ok"},
}
_POST: Mapping[str, _Route] = {
    "/execute": programs.execute,
    "/setup/execute": programs.execute,
    "/execute_with_verification": programs.execute_with_verification,
    "/setup/execute_with_verification": programs.execute_with_verification,
    "/setup/launch": _LAUNCHES.launch,
    "/setup/upload": files.upload,
    "/setup/download_file": files.download_file,
    "/setup/open_file": lambda request: files.open_file(request, _LAUNCHES),
    "/setup/activate_window": windows.activate_window,
    "/setup/close_window": windows.close_window,
    "/setup/change_wallpaper": wallpaper.change,
    "/wallpaper": wallpaper.read,
    "/file": files.read_file,
    "/list_directory": files.list_directory,
    "/screen_size": screen.screen_size,
    "/window_size": windows.window_size,
    "/desktop_path": files.desktop_path,
    "/start_recording": _RECORDER.start,
    "/end_recording": _RECORDER.stop,
    "/run_python": programs.run_python,
    "/run_bash_script": programs.run_bash_script,
}
_BAD_VALUES = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)
"""What a field of an unexpected kind ends in."""


class Handler(BaseHTTPRequestHandler):
    """Routes a request, and writes its answer."""

    protocol_version = "HTTP/1.1"
    timeout = 300
    turns = threading.BoundedSemaphore(_REQUESTS_MAX)
    token = ""

    def do_GET(self) -> None:
        self._serve(_GET, _POST)

    def do_POST(self) -> None:
        self._serve(_POST, _GET)

    def _serve(self, routes: Mapping[str, _Route], others: Mapping[str, _Route]) -> None:
        answer: Answer
        try:
            with self.turns:
                status, answer = 200, self._answer(routes, others)
        except RefusedError as refusal:
            status, answer = refusal.status, refusal.body
        name = ""
        if isinstance(answer, Download):
            data, kind, name = answer
        elif isinstance(answer, str):
            kind, data = "text/html; charset=utf-8", answer.encode(errors="replace")
        else:
            kind, data = "application/json", json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if name:
            disposition = f"attachment; filename*=UTF-8''{quote(name, errors='replace')}"
            self.send_header("Content-Disposition", disposition)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, routes: Mapping[str, _Route], others: Mapping[str, _Route]) -> Answer:
        body = self._body()
        given = self.headers.get("Authorization", "")
        if self.token and not hmac.compare_digest(
            given.encode(errors="replace"), f"Bearer {self.token}".encode()
        ):
            raise RefusedError(401, {"error": "this needs the header Authorization: Bearer TOKEN"})
        path = urlsplit(self.path).path
        if path not in routes:
            if path in others:
                raise RefusedError(405, {"error": f"{path} takes another method"})
            raise RefusedError(404, {"error": f"no such endpoint: {path}"})
        try:
            request = parse_body(self.headers.get("Content-Type", ""), body)
        except _BAD_VALUES as error:
            raise RefusedError(400, {"error": f"bad request: {error}"}) from error
        try:
            return routes[path](request)
        except (*_BAD_VALUES, OSError, subprocess.SubprocessError) as error:
            raise failed(f"{type(error).__name__}: {error}") from error

    def _body(self) -> bytes:
        """The body, which is read even where it is refused: the next request comes after it."""
        try:
            size = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            size = -1
        if not 0 <= size <= BODY_BYTES_MAX:
            self.close_connection = True
            raise RefusedError(413, {"error": f"{size} bytes; at most {BODY_BYTES_MAX}"})
        return self.rfile.read(size)

    def address_string(self) -> str:
        """A unix peer has no address."""
        return "local"

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: the host records what it asks."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The same server on a unix socket."""

    daemon_threads = True
    request_queue_size = 64


def handler_for(host: str, token: str) -> type[Handler]:
    """What answers at an address.

    Raises:
        ValueError: others reach it, and there is no token.
    """
    if host != "localhost" and not ipaddress.ip_address(host).is_loopback and not token:
        raise ValueError(f"others reach {host}: set {TOKEN_VARIABLE}, or bind 127.0.0.1")
    return type("TokenHandler", (Handler,), {"token": token})


def main() -> None:
    """Serve on both sockets."""
    host = os.environ.pop(HOST_VARIABLE, "") or "127.0.0.1"
    try:
        handler = handler_for(host, os.environ.pop(TOKEN_VARIABLE, ""))
    except ValueError as error:
        sys.exit(str(error))
    port = ThreadingHTTPServer((host, PORT), handler)
    threading.Thread(target=port.serve_forever, daemon=True).start()
    # Under no other name: a clone of this desktop has its socket where it was bound.
    unix = UnixServer(SOCKET_PATH, Handler)
    unix.serve_forever()


if __name__ == "__main__":
    main()
