"""What a session must offer: programs over the X server that make a desktop of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from envs_node.actors.desktop.launcher import Program
from envs_node.actors.desktop.screen import Screen
from envs_node.actors.desktop.xserver import XConnection

X_SOCKET = "/tmp/.X11-unix/X0"
SESSION_BUS = "/run/user/1000/bus"


class Ground(Protocol):
    """A desktop as a shell sees it while it starts."""

    connection: XConnection
    screen: Screen

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
    programs: Sequence[Program]
    """What is started beside the X server and the session bus. Without these it is no desktop."""

    def is_ready(self, ground: Ground) -> bool:
        """Whether it answers and has painted."""
