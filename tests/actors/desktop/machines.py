"""A machine with OSWorld's server for tests: a real desktop, to whose server a port here leads.

It is reverted as an operator would have it: by a command, which asks a second port.
"""

from __future__ import annotations

import http.server
import select
import socket
import socketserver
import threading
from typing import Any

from envs_node.actors.desktop.doors import connect_inside
from envs_node.actors.desktop.guestclient import SOCKET_PATH
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.remote.address import Address
from envs_node.actors.desktop.sandbox import Sandbox
from tests.actors.desktop.looking import inside
from tests.fakes_desktop import make_task


class BridgedMachine:
    """A sandbox that looks like a machine somewhere else."""

    def __init__(self, launcher: Launcher) -> None:
        self.sandbox = Sandbox(launcher)
        self.sandbox.reset(make_task())
        self.reverts = 0
        self._servers = [_Server(_Bridge, self), _Server(_Reverting, self)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = Address("127.0.0.1", self._servers[0].port)
        self.revert_command = ("curl", "-fsS", f"http://127.0.0.1:{self._servers[1].port}/")

    def revert(self) -> None:
        """Be a fresh desktop."""
        self.sandbox.reset(make_task())
        self.reverts += 1

    def close(self) -> None:
        """End it, and what leads to it."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self.sandbox.close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, handler: Any, machine: BridgedMachine) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.machine = machine
        self.port: int = self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One end went away."""


class _Bridge(socketserver.BaseRequestHandler):
    """Carries a connection to the server inside."""

    server: Any

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as far:
            connect_inside(far, inside(self.server.machine.sandbox, SOCKET_PATH))
            ways = {self.request: far, far: self.request}
            while ways:
                for source in select.select(list(ways), [], [])[0]:
                    data = source.recv(1 << 16)
                    if data:
                        ways[source].sendall(data)
                    else:
                        ways.pop(source).shutdown(socket.SHUT_WR)


class _Reverting(http.server.BaseHTTPRequestHandler):
    """Reverts the machine, and answers when that is done."""

    server: Any

    def do_GET(self) -> None:
        self.server.machine.revert()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
