"""Hostile guests: real programs in a real desktop, with a neighbour that must not notice them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.kind import DesktopKind, Limits
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Type, Wait
from tests.actors.desktop.looking import inside, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
MIB = 1 << 20
SMALL = DesktopKind(limits=Limits(memory_bytes=400 * MIB, disk_bytes=128 * MIB, processes_max=200))
_ACT_S = 10.0
"""What an action of a neighbour may take on a loaded machine, with its wait for stillness."""


@pytest.fixture(scope="module")
def neighbour(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop beside the hostile one, with a shell that counts what it was told."""
    sandbox = Sandbox(launcher, SMALL)
    sandbox.reset(open_task("xterm"))
    yield sandbox
    sandbox.close()


@pytest.fixture
def hostile(launcher: Launcher, neighbour: Sandbox) -> Iterator[Sandbox]:
    """A desktop whose guest may do what it likes; afterwards host and neighbour are as before."""
    sandbox = Sandbox(launcher, SMALL)
    sandbox.reset(open_task("xterm"))
    host = look_at_host()
    yield sandbox
    assert look_at_host() == host
    begin_s = time.monotonic()
    neighbour.act(Type(text="x"))
    assert time.monotonic() - begin_s < _ACT_S
    assert sandbox.reset(open_task("xterm")).elements, "a recycled desktop is whole"
    sandbox.close()


def look_at_host() -> tuple[str, ...]:
    """What of the host no guest may change."""
    return (
        Path("/proc/self/mountinfo").read_text(),
        os.uname().nodename,
        str(sorted(os.listdir("/tmp/.X11-unix")) if Path("/tmp/.X11-unix").exists() else ""),
    )


def run_inside(sandbox: Sandbox, source: str) -> None:
    """Start a Python program inside and leave it running."""
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=20)
    guest.post("/setup/launch", {"command": ["python3", "-c", source]})


def loses(sandbox: Sandbox, timeout_s: float = 30.0) -> str:
    """Go on with a desktop until it is lost; why."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            sandbox.act(Wait(wait_ms=100))
        except DesktopLostError as error:
            return str(error)
    return "it is not lost"


def test_a_memory_bomb_loses_its_desktop_which_says_how_much(hostile: Sandbox):
    """Row D20."""
    run_inside(hostile, "data = []\nwhile True: data.append(b'x' * (1 << 20))")

    why = loses(hostile)

    assert why.startswith("out of memory: the kernel killed "), why
    assert "may take 400 MiB" in why


def test_a_fork_bomb_is_stopped_by_its_limit(hostile: Sandbox):
    source = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    before = len(os.listdir("/proc"))

    run_inside(hostile, source)

    assert wait_until(lambda: len(os.listdir("/proc")) > before + 100)
    assert not wait_until(lambda: len(os.listdir("/proc")) > before + 260, timeout_s=2)
    with suppress(DesktopLostError):
        hostile.act(Wait(wait_ms=100))
