"""A launcher a module, and a desktop a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Starts the desktops of a module."""
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def sandbox(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop, closed in the end."""
    sandbox = Sandbox(launcher)
    yield sandbox
    sandbox.close()
