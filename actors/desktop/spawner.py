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
from envs_node.actors.desktop.cgroups import Place, find_place
from envs_node.actors.desktop.visitor import spawn

_REQUEST_BYTES_MAX = 1 << 17


def serve(channel: socket.socket) -> None:
    """Answer requests until the channel closes, then kill every desktop."""
    desktops: dict[int, Desktop] = {}
    place = find_place()
    while request := channel.recv(_REQUEST_BYTES_MAX):
        try:
            answer = _answer(json.loads(request), desktops, place)
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        channel.send(json.dumps(answer).encode())
    for desktop in desktops.values():
        desktop.destroy()
    place.close()


def _answer(request: dict[str, Any], desktops: dict[int, Desktop], place: Place) -> dict[str, Any]:
    match request["verb"]:
        case "create":
            bounds = make_bounds(place, request["kind"])
            try:
                desktop = create(request["layers"], bounds)
            except OSError:
                bounds.group.remove()
                raise
            desktops[desktop.pid] = desktop
            group = bounds.group.folders
            return {"pid": desktop.pid, "group": group, "missing": dict(bounds.missing)}
        case "spawn":
            if request["pid"] not in desktops:
                raise ValueError(f"no desktop {request['pid']}")
            return {"pid": spawn(request, desktops[request["pid"]].bounds)}
        case "destroy":
            if request["pid"] in desktops:
                desktops.pop(request["pid"]).destroy()
            return {}
        case verb:
            raise ValueError(f"unknown verb {verb!r}")


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
