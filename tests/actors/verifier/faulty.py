"""A desktop with one fault, in a network namespace of its own, and all its faults by name.

Run by `unshare --net python faulty.py FAULT [DELAY_S]`. On it there is nothing: no file, no window,
and every command says ''. A line on standard input makes it as it was at the start and is answered
with a line. Faults that begin `late-` let the first request, the checker's probe, be answered.
"""

from __future__ import annotations

import http.server
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import NoReturn

from envs_node.deploy.tasks.stubs import EMPTY

FAULTS = ("dead", "500", "frozen", "slow", "truncating", "empty")
LATE_FAULTS = ("late-dead", "late-500", "late-frozen", "late-truncating")
_PORTS = (5000, 8080)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers OSWorld's requests with nothing, each by way of the fault."""

    protocol_version = "HTTP/1.1"
    fault, delay_s = "empty", 0.25
    asked = 0

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer, or do not."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Handler.asked += 1
        is_late = self.fault.startswith("late-")
        fault = "empty" if is_late and Handler.asked == 1 else self.fault.removeprefix("late-")
        said = EMPTY.get(self.path)
        status = 404 if said is None else 200
        data = json.dumps({"error": "nothing here"} if said is None else said).encode()
        if fault == "dead":
            self._reset()
        elif fault == "500":
            self._answer(500, data)
        elif fault == "frozen":
            threading.Event().wait()
        elif fault == "truncating":
            self._answer(status, data[: len(data) // 2], announced_bytes=len(data))
            self.close_connection = True
        else:
            self._answer(status, data, delay_s=self.delay_s if fault == "slow" else 0.0)

    do_POST = do_GET

    def _reset(self) -> None:
        """Break the connection off, as the kernel does for a process that was killed."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def _answer(
        self, status: int, body: bytes, *, announced_bytes: int = 0, delay_s: float = 0.0
    ) -> None:
        time.sleep(delay_s)
        self.send_response(status)
        self.send_header("Content-Length", str(announced_bytes or len(body)))
        self.end_headers()
        self.wfile.flush()
        time.sleep(delay_s)
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Says nothing about callers that went away."""

    def handle_error(self, *_: object) -> None:
        """They time out on purpose."""


def main() -> NoReturn:
    """Bring the loopback up, serve, and obey standard input."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Handler.fault = sys.argv[1]
    if len(sys.argv) > 2:
        Handler.delay_s = float(sys.argv[2])
    ports = {"dead": (), "empty": _PORTS[:1], "slow": _PORTS[:1]}.get(Handler.fault, _PORTS)
    for port in ports:
        server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        Handler.asked = 0
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    sys.exit()


if __name__ == "__main__":
    main()
