"""What tests of hostile guests share: programs are run inside, and the desktop gone on with."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from pathlib import Path

import jeepney
import msgspec
import Xlib

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.kind import DesktopKind, Limits
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Wait
from envs_node.messages.base import WIRE_BYTES_MAX
from envs_node.messages.desktop import Observation
from tests.actors.desktop.looking import inside

MIB = 1 << 20
SMALL = DesktopKind(limits=Limits(memory_bytes=400 * MIB, disk_bytes=128 * MIB, processes_max=200))
ACT_S = 15.0
"""What an action may take on a loaded machine, with its wait for stillness."""
LIBRARY = "/tmp/library.zip"


def look_at_host(launcher: Launcher) -> tuple[object, ...]:
    """What of the host no guest may change, and what must not pile up."""
    return (
        Path("/proc/self/mountinfo").read_text(),
        os.uname().nodename,
        launcher.exit_status,
        sorted(os.listdir(f"/proc/{launcher.pid}/fd"))[:4],
    )


def run_inside(sandbox: Sandbox, source: str) -> str:
    """Run a Python program inside; what it prints, and its errors."""
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=60)
    guest.upload("/tmp/hostile.py", source.encode())
    answer = json.loads(guest.post("/execute", {"command": ["python3", "/tmp/hostile.py"]}))
    return str(answer["output"] + answer["error"]).strip()


def start_inside(sandbox: Sandbox, source: str) -> None:
    """Start a Python program inside, and leave it running."""
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=20)
    guest.upload("/tmp/hostile.py", source.encode())
    guest.post("/setup/launch", {"command": ["python3", "/tmp/hostile.py"]})


def give_library(sandbox: Sandbox) -> None:
    """Put clients of X and D-Bus into a desktop."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for package in (Xlib, jeepney):
            folder = Path(package.__file__).parent
            for path in folder.rglob("*.py"):
                archive.write(path, path.relative_to(folder.parent))
        archive.write(Path(Xlib.__file__).parents[1] / "six.py", "six.py")
    Guest(inside(sandbox, SOCKET_PATH), timeout_s=20).upload(LIBRARY, sink.getvalue())


def loss_of(sandbox: Sandbox, timeout_s: float = 30.0) -> str:
    """Go on with a desktop until it is lost; why."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        began_s = time.monotonic()
        try:
            sandbox.act(Wait(wait_ms=100))
        except DesktopLostError as error:
            return str(error)
        finally:
            assert time.monotonic() - began_s < ACT_S, "an answer, good or bad, and soon"
    return "it is not lost"


def is_sendable(seen: Observation) -> bool:
    """Whether it fits into a message, with much to spare."""
    return len(msgspec.msgpack.encode(seen)) < WIRE_BYTES_MAX // 8
