"""Has the launcher's process write desktops out, and bring clones of them back."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import LAYERS, Launcher

_CHILD_TIMEOUT_S = 70.0


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """A desktop that was written out."""

    point: int
    size_bytes: int
    wall_ms: int


class Forker:
    """Blocking; safe to use from several threads, which then fork side by side.

    Args:
        criu: how CRIU is called.
    """

    def __init__(self, launcher: Launcher, criu: Sequence[str]) -> None:
        self._launcher = launcher
        self.criu: Sequence[str] = criu
        self._serials = itertools.count()

    def dump(self, pid: int, *, bytes_max: int) -> Dump:
        """Write a desktop out into a new fork point, while it stands still; it goes on after.

        Raises:
            LauncherError: it could not be written out; it goes on as if nothing had been tried.
            DesktopLostError: the launcher's process is gone.
        """
        request = {"verb": "dump", "pid": pid, "criu": list(self.criu), "bytes_max": bytes_max}
        answer, channel = self._ask(request)
        point = int(answer["point"])
        try:
            done = _await_child(channel, "dump")
        except LauncherError:
            self.drop(point)
            raise
        self._launcher.ask({"verb": "dumped", "point": point})
        return Dump(point=point, size_bytes=int(done["bytes"]), wall_ms=int(done["ms"]))

    def restore(self, point: int, kind: DesktopKind) -> int:
        """Bring a clone of a fork point up; the pid of its first process, as this host counts.

        Raises:
            LauncherError: it could not be brought back; nothing of it is left.
            DesktopLostError: the launcher's process is gone.
        """
        request = {
            "verb": "restore", "point": point, "criu": list(self.criu), "layers": LAYERS,
            "kind": msgspec.to_builtins(kind), "serial": next(self._serials),
        }  # fmt: skip
        answer, channel = self._ask(request)
        keeper, pid = int(answer["keeper"]), 0
        try:
            _await_child(channel, "restore")
            children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
            pid = int(children[0]) if children else 0
        finally:
            done = self._launcher.ask({"verb": "restored", "keeper": keeper, "pid": pid})
        if not done:
            raise LauncherError("restore: the clone ended at once")
        return self._launcher.adopt(done)

    def drop(self, point: int) -> None:
        """Give a fork point up; clones that come from it just now still do."""
        self._launcher.ask({"verb": "drop", "point": point})

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], socket.socket]:
        """Ask for what a child of the launcher's process does, and get a channel to that child."""
        handles: list[int] = []
        answer = self._launcher.ask(request, handles)
        return answer, socket.socket(fileno=handles[0])


def _await_child(channel: socket.socket, verb: str) -> dict[str, Any]:
    """Wait for what a child of the launcher's process says at its end."""
    data = b""
    with channel:
        channel.settimeout(_CHILD_TIMEOUT_S)
        try:
            while not data.endswith(b"\n") and (more := channel.recv(1 << 16)):
                data += more
        except OSError as error:
            raise LauncherError(f"{verb}: {error}") from error
    answer: dict[str, Any] = json.loads(data) if data else {"error": "its process died"}
    if "error" in answer:
        raise LauncherError(f"{verb}: {answer['error']}")
    return answer
