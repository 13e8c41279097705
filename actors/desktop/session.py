"""A session: one running desktop with its X server, buses, window manager and OSWorld server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from envs_node.actors.desktop.accessibility import AccessibilityBus
from envs_node.actors.desktop.errors import DesktopLostError, LauncherError, SetupFailedError
from envs_node.actors.desktop.input import Input
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.screen import Screen
from envs_node.actors.desktop.xserver import XConnection

START_TIMEOUT_S = 20.0
_POLL_S = 0.003
_X_SOCKET = "/tmp/.X11-unix/X0"
_BUS = "/run/user/1000/bus"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
    "HOME": "/home/user", "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash",
    "LANG": "C.UTF-8", "TZ": "UTC", "DISPLAY": ":0", "XENVIRONMENT": "/etc/envs/Xresources",
    "XDG_RUNTIME_DIR": "/run/user/1000", "XDG_SESSION_TYPE": "x11", "XDG_CURRENT_DESKTOP": "ENVS",
    "DBUS_SESSION_BUS_ADDRESS": f"unix:path={_BUS}", "GDK_BACKEND": "x11",
    "GTK_MODULES": "gail:atk-bridge", "GTK_A11Y": "atspi", "NO_AT_BRIDGE": "0",
    "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1", "SAL_USE_VCLPLUGIN": "gtk3",
    "LIBGL_ALWAYS_SOFTWARE": "1", "GSETTINGS_BACKEND": "keyfile",
    "MOZ_ASSUME_USER_NS": "0", "MOZ_DISABLE_CONTENT_SANDBOX": "1",
    "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX": "1", "MOZ_DISABLE_RDD_SANDBOX": "1",
    "MOZ_DISABLE_UTILITY_SANDBOX": "1", "MOZ_DISABLE_GMP_SANDBOX": "1",
}  # fmt: skip


class Session:
    """One desktop, from its first process to its last. Blocking; close it."""

    def __init__(self, launcher: Launcher, kind: DesktopKind) -> None:
        """Start it, and return when everything in it answers.

        Raises:
            LauncherError: the host refused.
            DesktopLostError: a part of it did not come up.
        """
        self._launcher = launcher
        self.kind = kind
        self.width, self.height = kind.width, kind.height
        self.pid = launcher.create(kind)
        self._group = launcher.group(self.pid)
        self._parts: dict[str, int] = {}
        self._closers: list[AccessibilityBus | XConnection | Screen] = []
        try:
            with self.watched():
                self._start()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Whatever breaks in this block once the kernel has killed for memory broke over that.

        Raises:
            DesktopLostError: naming the memory.
        """
        try:
            yield
        except (DesktopLostError, SetupFailedError, LauncherError) as error:
            if loss := self._memory_loss():
                raise DesktopLostError(f"{loss}; then: {error}") from error
            raise

    def path(self, inner: str) -> Path:
        """A path of the desktop, as this host sees it."""
        return Path(f"/proc/{self.pid}/root{inner}")

    def spawn(self, argv: Sequence[str], log: str) -> int:
        """Start a program in it."""
        return self._launcher.spawn(self.pid, argv, ENVIRONMENT, log)

    def work(self) -> tuple[float, bool]:
        """Processor time of its living programs, in ms, and whether one runs or waits to.

        One that waits for a disk is about to run.
        """
        ticks, is_running = 0, False
        for stat in self.path("/proc").glob("[0-9]*/stat"):
            try:
                state, *fields = stat.read_text().rpartition(")")[2].split()
            except (OSError, ValueError):  # it has ended meanwhile
                continue
            is_running = is_running or state in "RD"
            ticks += int(fields[10]) + int(fields[11])
        return ticks * 1000 / os.sysconf("SC_CLK_TCK"), is_running

    def clients(self) -> int:
        """How many connections its X server has accepted."""
        sockets = Path(f"/proc/{self.pid}/net/unix").read_text().splitlines()
        return sum(line.endswith(_X_SOCKET) and " 0001 03 " in line for line in sockets)

    def require_whole(self) -> None:
        """Refuse to go on when a part of the desktop itself has ended, or is stopped.

        Without its window manager a desktop still has a picture, but keys reach nobody: what is
        seen and done there is no evidence for or against a policy.

        Raises:
            DesktopLostError: naming the part, or the memory.
        """
        if loss := self._memory_loss():
            raise DesktopLostError(loss)
        for part, number in self._parts.items():
            try:
                stat = self.path(f"/proc/{number}/stat").read_text()
                state = stat.rpartition(")")[2].split()[0]
            except OSError:
                state = "X"
            if state in "XZTt":
                how = "has ended" if state in "XZ" else "is stopped"
                raise DesktopLostError(f"the desktop's {part} {how}")

    def wait_path(self, inner: str) -> None:
        """Wait until a file is there.

        Raises:
            DesktopLostError: it did not come in time.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        path = self.path(inner)
        while not path.exists():
            if time.monotonic() > deadline:
                raise DesktopLostError(f"{inner} did not appear within {START_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Hang up everywhere and destroy the desktop. Twice does no harm."""
        while self._closers:
            self._closers.pop().close()
        self._launcher.destroy(self.pid)

    def _memory_loss(self) -> str:
        """Why the desktop is lost, if its memory is the reason."""
        used = self._group.usage()
        if not used.kills:
            return ""
        peak, most = used.memory_peak_bytes >> 20, self._group.memory_max() >> 20
        return (
            f"out of memory: the kernel killed {used.kills} of the desktop's programs; "
            f"it took {peak} MiB at most, and may take {most} MiB"
        )

    def _begin(self, part: str, *argv: str) -> None:
        self._parts[part] = self.spawn(argv, part)

    def _start(self) -> None:
        size = f"{self.width}x{self.height}x24"
        server = ["Xvfb", ":0", "-screen", "0", size, "-dpi", "96"]
        options = ["-nolisten", "tcp", "-noreset", "-ac", "-nocursor", "-extension", "GLX"]
        self._begin("xvfb", *server, *options)
        bus = ("--config-file=/etc/envs/session.conf", "--nofork", "--nopidfile")
        self._begin("dbus", "dbus-daemon", *bus)
        guest = "envs_node.actors.desktop.guest.server"
        self._begin("guest", "/usr/bin/python3", "-E", "-m", guest)
        self.wait_path(_BUS)
        # No part that must stay: D-Bus may start a second one, and the first then ends.
        self.spawn(
            ["/usr/libexec/at-spi-bus-launcher", "--launch-immediately", "--a11y=1"], "atspi"
        )
        self.connection = XConnection(self.path(_X_SOCKET), START_TIMEOUT_S)
        self._closers.append(self.connection)
        self._begin("wm", "openbox", "--sm-disable", "--config-file", "/etc/xdg/openbox/rc.xml")
        self.screen = Screen(self.path(_X_SOCKET), self.width, self.height)
        self._closers.append(self.screen)
        self.input = Input(self.connection, self.width, self.height, self.path)
        self.input.wake()
        root = f"/proc/{self.pid}/root"
        self.accessibility = AccessibilityBus(f"{root}{_BUS}", root, START_TIMEOUT_S)
        self._closers.append(self.accessibility)
        self._wait_window_manager()

    def _wait_window_manager(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.connection.has_window_manager():
            if time.monotonic() > deadline:
                raise DesktopLostError(f"no window manager within {START_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
