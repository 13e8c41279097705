"""The launcher's process: forks desktops, and programs inside them, on request.

It has one thread and the standard library alone, because a process that forks must hold no locks
of others; a node's own process has threads. One request is one SEQPACKET datagram of JSON, and so
is its answer. It ends when the other end closes, and every desktop ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.birth import Desktop, create
from envs_node.actors.desktop.bounds import make_bounds
from envs_node.actors.desktop.cgroups import find_place
from envs_node.actors.desktop.lower import Images
from envs_node.actors.desktop.root import Plan
from envs_node.actors.desktop.usermap import UserMap, choose_map, may_mount
from envs_node.actors.desktop.visitor import spawn

_REQUEST_BYTES_MAX = 1 << 17


class Spawner:
    """All desktops of this process."""

    def __init__(self) -> None:
        self._is_root = may_mount()
        self._users: UserMap | None = None
        self._images = Images(is_root=self._is_root)
        self._place = find_place()
        self._desktops: dict[int, Desktop] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked for."""
        match request["verb"]:
            case "create":
                desktop = self._create(request["layers"], request["kind"])
                self._desktops[desktop.pid] = desktop
                group, missing = desktop.bounds.group.folders, dict(desktop.bounds.missing)
                return {"pid": desktop.pid, "group": group, "missing": missing}
            case "spawn":
                if request["pid"] not in self._desktops:
                    raise ValueError(f"no desktop {request['pid']}")
                return {"pid": spawn(request, self._desktops[request["pid"]].bounds)}
            case "destroy":
                if request["pid"] in self._desktops:
                    self._desktops.pop(request["pid"]).destroy()
                return {}
            case verb:
                raise ValueError(f"unknown verb {verb!r}")

    def close(self) -> None:
        """Kill every desktop."""
        while self._desktops:
            self._desktops.popitem()[1].destroy()
        self._place.close()

    def _create(self, layers: dict[str, str], kind: dict[str, Any]) -> Desktop:
        if not self._is_root and self._users is None:
            self._users = choose_map()
        bounds = make_bounds(self._place, kind)
        try:
            plan = Plan(
                layers=layers,
                disk_bytes=int(kind["limits"]["disk_bytes"]),
                lower=kind["lower"],
                device=self._images.attach(kind["lower"]),
                is_root=self._is_root,
            )
            return create(plan, self._users, bounds)
        except OSError:
            bounds.group.remove()
            raise


def serve(channel: socket.socket) -> None:
    """Answer requests until the channel closes, then kill every desktop."""
    spawner = Spawner()
    while request := channel.recv(_REQUEST_BYTES_MAX):
        try:
            answer = spawner.answer(json.loads(request))
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        channel.send(json.dumps(answer).encode())
    spawner.close()


def main() -> None:
    """Serve on the file descriptor named in the arguments: fd, parent's pid or 0."""
    handle, parent = int(sys.argv[1]), int(sys.argv[2])
    kernel.control(kernel.CHILD_SUBREAPER, 1)
    if parent:
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
    os.set_inheritable(handle, False)
    with socket.socket(fileno=handle) as channel:
        serve(channel)


if __name__ == "__main__":
    main()
