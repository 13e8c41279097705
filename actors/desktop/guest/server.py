"""OSWorld's in-guest HTTP interface, with the standard library alone.

It answers on the desktop's own loopback, port 5000, for OSWorld's getters and agents, and on a
unix socket, through which the host reaches it. It runs as the desktop's user, who may do all this
anyway. Paths, status codes and answers are those of OSWorld's server.
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import os
import socketserver
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

from envs_node.actors.desktop.guest import files, programs, windows
from envs_node.actors.desktop.guest.answer import Answer, Fields, RefusedError

SOCKET_PATH = "/run/share/guest.sock"
PORT = 5000
BODY_BYTES_MAX = 256 << 20

_Route: TypeAlias = Callable[[Fields], Answer]
_GET: Mapping[str, _Route] = {
    "/screenshot": windows.screenshot,
    "/terminal": lambda _: {"output": None, "status": "success"},
    "/accessibility": windows.accessibility,
    "/platform": lambda _: "Linux",
    "/setup/launched": programs.launched,
    "/health": lambda _: {"status": "ok"},
}
_POST: Mapping[str, _Route] = {
    "/execute": programs.execute,
    "/setup/execute": programs.execute,
    "/setup/launch": programs.launch,
    "/setup/upload": files.upload,
    "/setup/open_file": files.open_file,
    "/setup/activate_window": windows.activate_window,
    "/setup/close_window": windows.close_window,
    "/file": files.read_file,
    "/list_directory": files.list_directory,
    "/screen_size": windows.screen_size,
    "/window_size": windows.window_size,
    "/desktop_path": files.desktop_path,
    "/run_python": programs.run_python,
    "/run_bash_script": programs.run_bash_script,
}


def parse_body(content_type: str, body: bytes) -> Fields:
    """The fields of a request: JSON, a form, or a form with files."""
    if content_type.startswith("multipart/form-data"):
        head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        fields: Fields = {}
        for part in message.iter_parts():
            data = part.get_payload(decode=True)
            if not isinstance(data, bytes):
                raise ValueError("a part of the form has parts of its own")
            name = str(part.get_param("name", header="content-disposition"))
            fields[name] = data if part.get_filename() else data.decode()
        return fields
    if content_type.startswith("application/x-www-form-urlencoded"):
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}
    fields = json.loads(body) if body.strip() else {}
    if not isinstance(fields, dict):
        raise ValueError("the body is no JSON object")
    return fields


class Handler(BaseHTTPRequestHandler):
    """Routes a request, and writes its answer."""

    protocol_version = "HTTP/1.1"
    timeout = 300

    def do_GET(self) -> None:
        self._answer(_GET)

    def do_POST(self) -> None:
        self._answer(_POST)

    def _answer(self, routes: Mapping[str, _Route]) -> None:
        answer: Answer
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if size > BODY_BYTES_MAX:
                self.close_connection = True
                raise RefusedError(413, {"error": f"{size} bytes; at most {BODY_BYTES_MAX}"})
            body = self.rfile.read(size)
            route = routes.get(urlsplit(self.path).path)
            if route is None:
                raise RefusedError(404, {"error": f"no such endpoint: {self.path}"})
            try:
                request = parse_body(self.headers.get("Content-Type", ""), body)
            except (ValueError, AttributeError) as error:
                raise RefusedError(400, {"error": f"bad request: {error}"}) from error
            status, answer = 200, route(request)
        except RefusedError as refusal:
            status, answer = refusal.status, refusal.body
        if isinstance(answer, bytes):
            kind, data = "application/octet-stream", answer
        elif isinstance(answer, str):
            kind, data = "text/html; charset=utf-8", answer.encode()
        else:
            kind, data = "application/json", json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        """A unix peer has no address."""
        return "local"

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: the host records what it asks."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The same server on a unix socket."""

    daemon_threads = True
    request_queue_size = 16


def main() -> None:
    """Serve on both sockets."""
    port = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=port.serve_forever, daemon=True).start()
    unix = UnixServer(f"{SOCKET_PATH}.new", Handler)
    os.rename(f"{SOCKET_PATH}.new", SOCKET_PATH)  # whoever sees the name finds it listening
    unix.serve_forever()


if __name__ == "__main__":
    main()
