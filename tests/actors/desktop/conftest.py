"""A launcher a module, and a desktop a test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Type
from tests.actors.desktop.hostility import ACT_S, SMALL, look_at_host
from tests.fakes_desktop import open_task


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Starts the desktops of a module."""
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def sandbox(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop, closed in the end."""
    with closing(Sandbox(launcher)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def neighbour(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop beside the hostile one."""
    with closing(Sandbox(launcher, SMALL)) as sandbox:
        sandbox.reset(open_task("xterm"))
        yield sandbox


@pytest.fixture
def hostile(launcher: Launcher, neighbour: Sandbox) -> Iterator[Sandbox]:
    """A desktop whose guest may do what it likes.

    Afterwards the host is as before, the neighbour acts as always, and a reset makes the
    desktop a good one again: what broke was the desktop, and nothing else.
    """
    with closing(Sandbox(launcher, SMALL)) as sandbox:
        sandbox.reset(open_task("xterm"))
        before = look_at_host(launcher)
        yield sandbox
        began_s = time.monotonic()
        seen = neighbour.act(Type(text="x"))
        assert time.monotonic() - began_s < ACT_S
        assert seen.settled
        assert sandbox.reset(open_task("xterm")).elements
        assert sandbox.act(Type(text="x")).settled
    assert look_at_host(launcher) == before
