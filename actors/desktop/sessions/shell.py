"""What a session must offer: programs over the X server that make a desktop of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from envs_node.actors.desktop.screen import Screen
from envs_node.actors.desktop.xserver import XConnection

SESSION_BUS = "/run/user/1000/bus"


class Ground(Protocol):
    """A desktop as a shell sees it while it starts."""

    connection: XConnection
    screen: Screen

    def begin(self, part: str, *argv: str) -> None:
        """Start a program without which the desktop is lost."""

    def path(self, inner: str) -> Path:
        """A path of the desktop, as this host sees it."""


class Shell(Protocol):
    """A kind of session. It has no state: what it starts belongs to the desktop."""

    environment: Mapping[str, str]
    """What its applications see, beyond what those of every desktop do."""
    needs_gl: bool
    """Whether the X server must offer GLX, which costs it 50 MB."""
    quiet_ms: int
    """How long the picture must stand still before the desktop is ready; 0 for no wait."""
    start_timeout_s: float

    def prepare(self, ground: Ground) -> None:
        """Start what needs no X server."""

    def start(self, ground: Ground) -> None:
        """Start what needs one."""

    def is_ready(self, ground: Ground) -> bool:
        """Whether it answers and has painted."""
