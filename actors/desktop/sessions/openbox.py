"""openbox: a window manager and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from envs_node.actors.desktop.sessions.shell import Ground


class Openbox:
    """Windows with frames, on a bare ground."""

    environment: Mapping[str, str] = {"XDG_CURRENT_DESKTOP": "ENVS"}
    needs_gl = False
    quiet_ms = 0
    start_timeout_s = 20.0

    def prepare(self, ground: Ground) -> None:
        """There is nothing."""

    def start(self, ground: Ground) -> None:
        """Start the window manager."""
        argv = ("openbox", "--sm-disable", "--config-file", "/etc/xdg/openbox/rc.xml")
        ground.begin("wm", *argv)

    def is_ready(self, ground: Ground) -> bool:
        """Whether it has taken the screen."""
        return ground.connection.has_window_manager()
