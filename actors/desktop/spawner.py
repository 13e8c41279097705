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
from contextlib import suppress
from typing import Any

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.birth import Desktop, create
from envs_node.actors.desktop.bounds import make_bounds
from envs_node.actors.desktop.cgroups import find_place
from envs_node.actors.desktop.fork.keeping import Forks
from envs_node.actors.desktop.layer import read_layers
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
        self._forks = Forks()

    def answer(self, request: dict[str, Any], handles: list[int]) -> dict[str, Any]:
        """Do what is asked for; a descriptor put into `handles` goes with the answer."""
        match request["verb"]:
            case "create":
                desktop = self._create(request)
                self._desktops[desktop.pid] = desktop
                return desktop.description()
            case "spawn":
                if request["pid"] not in self._desktops:
                    raise ValueError(f"no desktop {request['pid']}")
                return {"pid": spawn(request, self._desktops[request["pid"]].bounds)}
            case "destroy":
                if request["pid"] in self._desktops:
                    self._desktops.pop(request["pid"]).destroy()
                return {}
            case "restore" if self._is_root:
                bounds = make_bounds(self._place, request["kind"])
                plan = self._plan(request["layers"], request["kind"])
                return self._forks.restore(request, plan, bounds, handles)
            case "restored":
                clone = self._forks.restored(request["keeper"], request["pid"])
                if clone is None:
                    return {}
                self._desktops[clone.pid] = clone
                return clone.description()
            case "dump" if self._is_root:
                return self._forks.dump(request, self._desktops[request["pid"]], handles)
            case "dumped":
                return self._forks.dumped(request["point"])
            case "drop":
                return self._forks.drop(request["point"])
            case verb:
                raise ValueError(f"unknown verb {verb!r}")

    def close(self) -> None:
        """Kill every desktop."""
        while self._desktops:
            self._desktops.popitem()[1].destroy()
        self._place.close()

    def _create(self, request: dict[str, Any]) -> Desktop:
        if not self._is_root and self._users is None:
            self._users = choose_map()
        kind = request["kind"]
        bounds = make_bounds(self._place, kind)
        try:
            plan = self._plan(request["layers"], kind)
            return create(plan, self._users, bounds, request["programs"])
        except OSError:
            bounds.group.remove()
            raise

    def _plan(self, layers: dict[str, str], kind: dict[str, Any]) -> Plan:
        return Plan(
            entries=read_layers(layers),
            disk_bytes=int(kind["limits"]["disk_bytes"]),
            lower=kind["lower"],
            device=self._images.attach(kind["lower"]),
            is_root=self._is_root,
        )


def serve(channel: socket.socket) -> None:
    """Answer requests until the channel closes, then kill every desktop."""
    spawner = Spawner()
    with suppress(ConnectionError):  # the other end died in the middle of something
        while request := channel.recv(_REQUEST_BYTES_MAX):
            handles: list[int] = []
            try:
                answer = spawner.answer(json.loads(request), handles)
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            socket.send_fds(channel, [json.dumps(answer).encode()], handles)
            for handle in handles:
                os.close(handle)
    spawner.close()


def main() -> None:
    """Serve on the file descriptor named in the arguments: fd, parent's pid or 0."""
    handle, parent = int(sys.argv[1]), int(sys.argv[2])
    os.umask(0o022)  # what it makes is seen by the desktop's user, whatever ours sees
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
