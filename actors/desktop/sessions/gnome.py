"""GNOME Shell, as it is: on X11, drawn by the processor, without systemd, logind or gdm.

What would disturb is silenced by settings (`settings/home/user/.config/glib-2.0/settings/keyfile`)
and by an extension of ours (`settings/usr/share/gnome-shell/extensions`), which opens the session
on the windows instead of the overview and takes the clock off the panel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from jeepney import DBusAddress, MessageType, Properties
from jeepney.io.blocking import DBusConnection

from envs_node.actors.desktop.bus import connect_bus
from envs_node.actors.desktop.launcher import Program
from envs_node.actors.desktop.sessions.shell import SESSION_BUS, X_SOCKET, Ground

_SYSTEM_BUS = "/run/user/1000/system-bus"
_ANSWER_S = 1.0
_SHELL = DBusAddress("/org/gnome/Shell", "org.gnome.Shell", "org.gnome.Shell")


class Gnome:
    """A panel, an overview, a dash, notifications and windows."""

    environment: Mapping[str, str] = {
        "XDG_CURRENT_DESKTOP": "GNOME", "XDG_SESSION_DESKTOP": "gnome", "DESKTOP_SESSION": "gnome",
        "XDG_MENU_PREFIX": "gnome-", "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={_SYSTEM_BUS}",
    }  # fmt: skip
    needs_gl = True
    quiet_ms = 200
    start_timeout_s = 60.0
    programs: Sequence[Program] = (
        # A system bus, on which nobody is: the shell asks it for logind and polkit.
        Program(
            "system-bus",
            ("dbus-daemon", "--config-file=/etc/envs/system.conf", "--nofork", "--nopidfile"),
        ),
        # The shell is the window manager too.
        Program(
            "wm", ("gnome-shell", "--x11", "--sm-disable"),
            after=(X_SOCKET, SESSION_BUS, _SYSTEM_BUS),
        ),
    )  # fmt: skip

    def is_ready(self, ground: Ground) -> bool:
        """Whether it manages windows, has painted, and answers on the bus."""
        if not ground.connection.has_window_manager() or not ground.screen.grab()[::8, ::8].any():
            return False
        try:
            deadline_s = time.monotonic() + _ANSWER_S
            socket = connect_bus(str(ground.path(SESSION_BUS)), deadline_s)
            with DBusConnection(socket) as bus:
                question = Properties(_SHELL).get("OverviewActive")
                answer = bus.send_and_get_reply(question, timeout=_ANSWER_S)
        except (OSError, EOFError, TimeoutError):
            return False
        is_answer: bool = answer.header.message_type == MessageType.method_return
        return is_answer and bool(answer.body == (("b", False),))
