"""A small desktop for the verifier's tests: a process in a network namespace of its own.

Serves the part of OSWorld's in-guest interface that the tests need, out of a folder. It is run by
`unshare --net python guest.py FOLDER MODE`. Modes: `sound`, `broken` (500 to everything but the
probe), `cut` (announces more bytes than it sends), `dying` (gone when a file is asked for).
"""

from __future__ import annotations

import email
import http.server
import json
import os
import shlex
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers OSWorld's requests out of one folder."""

    folder = Path()
    mode = "sound"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer the probe."""
        if self.path != "/terminal":
            self._answer(404, b"{}")
            return
        self._answer(200, json.dumps({"output": "$ ", "status": "success"}).encode())

    def do_POST(self) -> None:
        """Answer files and commands."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.mode == "broken":
            self._answer(500, b"{}")
        elif self.path == "/file":
            self._send_file(urllib.parse.parse_qs(body.decode())["file_path"][0])
        elif self.path in ("/execute", "/setup/execute"):
            self._execute(json.loads(body))
        elif self.path == "/setup/upload":
            self._receive(body)
        elif self.path == "/setup/activate_window":
            self._answer(404, b"no such window")
        elif self.path == "/setup/open_file":
            self._answer(400, b"no")
        else:
            self._answer(404, b"{}")

    def _receive(self, body: bytes) -> None:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = email.message_from_bytes(head + body)
        fields = {
            part.get_param("name", header="content-disposition"): part for part in form.walk()
        }
        name = fields["file_path"].get_payload(decode=True).decode()
        (self.folder / name.lstrip("/")).write_bytes(fields["file_data"].get_payload(decode=True))
        self._answer(200, b"uploaded")

    def _send_file(self, name: str) -> None:
        if self.mode == "dying":
            os._exit(0)
        path = self.folder / name.lstrip("/")
        if not path.is_file():
            self._answer(404, b"{}")
        elif self.mode == "cut":
            self._answer(200, path.read_bytes(), more_bytes=100)
            self.close_connection = True
        else:
            self._answer(200, path.read_bytes())

    def _execute(self, order: dict[str, Any]) -> None:
        given = order["command"]
        command = shlex.split(given) if isinstance(given, str) else [str(word) for word in given]
        if order.get("shell"):
            command = ["sh", "-c", str(given)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder)},
            check=False,
        )
        answer = {
            "status": "success",
            "output": done.stdout,
            "error": done.stderr,
            "returncode": done.returncode,
        }
        self._answer(200, json.dumps(answer).encode())

    def _answer(self, status: int, body: bytes, more_bytes: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + more_bytes))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Bring the loopback up, say so, and serve."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Handler.folder, Handler.mode = Path(sys.argv[1]), sys.argv[2]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Handler)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
