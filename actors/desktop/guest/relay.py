"""Carries connections from the desktop's own loopback to a unix socket, where the host answers.

Runs only where the desktop was given a way out. Standard library alone.
"""

from __future__ import annotations

import os
import socket
import socketserver

from envs_node.actors.desktop.guest.ready import wait_ready

PORT = 3128
SOCKET_PATH = "/run/share/network.sock"
_CHUNK_BYTES = 64 << 10


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outer:
            outer.connect(SOCKET_PATH)
            ways = {self.request: outer, outer: self.request}
            while ways:
                for source in wait_ready(list(ways))[0]:
                    data = source.recv(_CHUNK_BYTES)
                    if data:
                        ways[source].sendall(data)
                    else:
                        ways.pop(source).shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """One end went away: nothing to say, and the log is small."""


def main() -> None:
    """Serve."""
    server = _Server(("127.0.0.1", PORT), _Handler)
    os.write(1, b"listening\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
