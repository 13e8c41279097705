"""openbox: a window manager and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envs_node.actors.desktop.launcher import Program
from envs_node.actors.desktop.sessions.shell import X_SOCKET, Ground


class Openbox:
    """Windows with frames, on a bare ground."""

    environment: Mapping[str, str] = {"XDG_CURRENT_DESKTOP": "ENVS"}
    needs_gl = False
    quiet_ms = 0
    start_timeout_s = 20.0
    programs: Sequence[Program] = (
        Program(
            "wm", ("openbox", "--sm-disable", "--config-file", "/etc/xdg/openbox/rc.xml"),
            after=(X_SOCKET,),
        ),
    )  # fmt: skip

    def is_ready(self, ground: Ground) -> bool:
        """Whether it has taken the screen."""
        return ground.connection.has_window_manager()
