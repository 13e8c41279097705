"""A real HTTP server on loopback whose files have faults, for tests of fetching."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = b"tea and oats\n" * 1000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        name = self.path.split("/")[1]
        getattr(self, f"_{name}", self._whole)()

    def _whole(self) -> None:
        with self.server.together:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        self.server.hold.wait(self.server.hold_s)
        self._head(200, {"Content-Length": str(len(BODY))})
        self.wfile.write(BODY)
        with self.server.together:
            self.server.now -= 1

    def _missing(self) -> None:
        self._head(404, {"Content-Length": "0"})

    def _private(self) -> None:
        self._head(401, {"Content-Length": "0"})

    def _busy(self) -> None:
        """Answer 503 twice, and then give the file."""
        if self.server.asked[self.path] > 2:
            self._whole()
        else:
            self._head(503, {"Content-Length": "0"})

    def _cut(self) -> None:
        """Send the first half the first time."""
        if self.server.asked[self.path] > 1:
            self._whole()
            return
        self._head(200, {"Content-Length": str(len(BODY))})
        self.wfile.write(BODY[: len(BODY) // 2])
        self.close_connection = True

    def _silent(self) -> None:
        """Send half and then nothing, until the test is over."""
        self._head(200, {"Content-Length": str(len(BODY))})
        self.wfile.write(BODY[: len(BODY) // 2])
        self.server.over.wait(30)
        self.close_connection = True

    def _endless(self) -> None:
        """Send and send, without a length."""
        self._head(200, {"Connection": "close"})
        while not self.server.over.is_set():
            try:
                self.wfile.write(BODY)
            except OSError:
                break
        self.close_connection = True

    def _dribble(self) -> None:
        """Send a byte now and then: never silent, and never done."""
        self._head(200, {"Content-Length": str(len(BODY))})
        while not self.server.over.wait(0.02):
            try:
                self.wfile.write(b"t")
            except OSError:
                break
        self.close_connection = True

    def _moved(self) -> None:
        self._head(302, {"Content-Length": "0", "Location": "/whole/moved.txt"})

    def _loop(self) -> None:
        self._head(302, {"Content-Length": "0", "Location": self.path})

    def _inside(self) -> None:
        self._head(302, {"Content-Length": "0", "Location": "file:///etc/hostname"})

    def _odd_pause(self) -> None:
        """Ask for a pause of a digit that is no number."""
        self._head(503, {"Content-Length": "0", "Retry-After": "\u00b2"})

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class FileServer(ThreadingHTTPServer):
    """Counts what it is asked, and how many at once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.over = threading.Event()
        self.hold = threading.Event()
        self.hold_s = 0.0
        """How long each whole file is held back, so that others come meanwhile."""
        self.together = threading.Lock()
        self.now = self.most = 0

    def url(self, path: str) -> str:
        """The address of a file: its first folder names its fault, `whole` is none."""
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, *_arguments: object) -> None:
        """A client that leaves is what is tested."""


@contextmanager
def serving() -> Iterator[FileServer]:
    """A server that answers while the block runs."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
