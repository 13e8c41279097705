"""A session: one running desktop with its X server, buses, window manager and OSWorld server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node.actors.desktop import network
from envs_node.actors.desktop.accessibility import AccessibilityBus
from envs_node.actors.desktop.doors import read_inside
from envs_node.actors.desktop.errors import DesktopLostError, LauncherError, SetupFailedError
from envs_node.actors.desktop.guest import relay
from envs_node.actors.desktop.input import Input
from envs_node.actors.desktop.kind import DesktopKind, SessionName
from envs_node.actors.desktop.launcher import Launcher, Program
from envs_node.actors.desktop.quiet import Quiet
from envs_node.actors.desktop.screen import Screen
from envs_node.actors.desktop.sessions.gnome import Gnome
from envs_node.actors.desktop.sessions.openbox import Openbox
from envs_node.actors.desktop.sessions.shell import SESSION_BUS, X_SOCKET, Shell
from envs_node.actors.desktop.settle import wait_still
from envs_node.actors.desktop.xorg import server_argv
from envs_node.actors.desktop.xserver import LOST, XConnection

START_TIMEOUT_S = 20.0
SHELLS: Mapping[SessionName, Shell] = {"openbox": Openbox(), "gnome": Gnome()}
_POLL_S = 0.003
_LOG_BYTES = 300
_GUEST = ("/usr/bin/python3", "-E", "-m", "envs_node.actors.desktop.guest.server")
_ACCESSIBILITY = "atspi"
"""No part that must stay: D-Bus may start a second one, and the first then ends."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
    "HOME": "/home/user", "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash",
    "LANG": "C.UTF-8", "TZ": "UTC", "DISPLAY": ":0", "XENVIRONMENT": "/etc/envs/Xresources",
    "XDG_RUNTIME_DIR": "/run/user/1000", "XDG_SESSION_TYPE": "x11",
    "DBUS_SESSION_BUS_ADDRESS": f"unix:path={SESSION_BUS}", "GDK_BACKEND": "x11",
    "GTK_MODULES": "gail:atk-bridge", "GTK_A11Y": "atspi", "NO_AT_BRIDGE": "0",
    "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
    "QT_QPA_PLATFORMTHEME": "kde", "KDE_SESSION_VERSION": "5",  # the one with a caret that rests
    "SAL_USE_VCLPLUGIN": "gtk3",
    "LIBGL_ALWAYS_SOFTWARE": "1", "GSETTINGS_BACKEND": "keyfile",
    "MOZ_ASSUME_USER_NS": "0", "MOZ_DISABLE_CONTENT_SANDBOX": "1",
    "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX": "1", "MOZ_DISABLE_RDD_SANDBOX": "1",
    "MOZ_DISABLE_UTILITY_SANDBOX": "1", "MOZ_DISABLE_GMP_SANDBOX": "1",
}  # fmt: skip


class Clone(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a desktop, as it is before anybody connects to it."""

    pid: int
    parts: Mapping[str, int]


class Session:
    """One desktop, from its first process to its last. Blocking; close it."""

    def __init__(self, launcher: Launcher, kind: DesktopKind, clone: Clone | None = None) -> None:
        """Start it, and return when everything in it answers.

        Args:
            clone: take over this one, which runs, and start none.

        Raises:
            LauncherError: the host refused.
            DesktopLostError: a part of it did not come up.
        """
        self._launcher = launcher
        self.kind = kind
        self.width, self.height = kind.width, kind.height
        self._shell = SHELLS[kind.session]
        self._environment = {**ENVIRONMENT, **self._shell.environment}
        if kind.allowed_hosts:
            self._environment.update(network.ENVIRONMENT)
        self._parts: dict[str, int] = {}
        if clone:
            self.pid, self._parts = clone.pid, dict(clone.parts)
        else:
            self._create()
        self._group = launcher.group(self.pid)
        self._closers: list[AccessibilityBus | XConnection | Screen | network.Bridge] = []
        try:
            with self.watched():
                if clone:
                    self.take_up()
                else:
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
            if loss := self._group.memory_loss():
                raise DesktopLostError(f"{loss}; then: {error}") from error
            raise

    @property
    def parts(self) -> dict[str, int]:
        """The programs without which it is no desktop, with their pids as it counts."""
        return dict(self._parts)

    def path(self, inner: str) -> Path:
        """A path of the desktop, as this host sees it."""
        return Path(f"/proc/{self.pid}/root{inner}")

    def spawn(self, argv: Sequence[str], log: str) -> int:
        """Start a program in it."""
        return self._launcher.spawn(self.pid, argv, self._environment, log)

    def work(self) -> tuple[float, bool]:
        """Processor time of its programs, also of those that have ended, in ms; and whether one
        runs or waits to.

        One that waits for a disk is about to run. Of several threads the kernel tells so for the
        first alone, so a page that was waited for counts as a tick of work.
        """
        ticks, is_running = 0, False
        for stat in self.path("/proc").glob("[0-9]*/stat"):
            try:
                state, *fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            except (OSError, ValueError):  # it has ended meanwhile
                continue
            is_running = is_running or state in "RD"
            ticks += int(fields[8]) + sum(map(int, fields[10:14]))
        return ticks * 1000 / os.sysconf("SC_CLK_TCK"), is_running

    def clients(self) -> int:
        """How many connections its X server has accepted."""
        listed = Path(f"/proc/{self.pid}/net/unix").read_text(errors="replace")  # any may name any
        sockets = listed.splitlines()
        return sum(line.endswith(X_SOCKET) and " 0001 03 " in line for line in sockets)

    def require_whole(self) -> None:
        """Refuse to go on when a part of the desktop itself has ended, or is stopped.

        Without its window manager a desktop still has a picture, but keys reach nobody: what is
        seen and done there is no evidence for or against a policy.

        Raises:
            DesktopLostError: naming the part, or the memory.
        """
        if loss := self._group.memory_loss():
            raise DesktopLostError(loss)
        if broken := self._broken():
            raise DesktopLostError("the desktop's {} {}".format(*broken))

    def wait_path(self, inner: str) -> None:
        """Wait until a file is there.

        Raises:
            DesktopLostError: it did not come in time.
        """
        path = self.path(inner)
        self._wait(path.exists, f"{inner} did not appear", START_TIMEOUT_S)

    def hang_up(self) -> None:
        """Close every connection from outside: nobody else's end could be in a copy of it.

        Raises:
            DesktopLostError: its X server does not say that it let our memory go.
        """
        self.screen.detach()
        self._hang_up()

    def take_up(self) -> None:
        """Connect again, to this desktop or to a copy of one.

        Raises:
            DesktopLostError: a part of it does not answer.
        """
        self._connect_display()
        self._connect_buses()
        if self.kind.allowed_hosts:
            self._open_bridge()

    def close(self) -> None:
        """Hang up everywhere and destroy the desktop. Twice does no harm."""
        self._hang_up()
        self._launcher.destroy(self.pid)

    def begin(self, part: str, *argv: str) -> None:
        """Start a program without which it is no desktop."""
        self._parts[part] = self.spawn(argv, part)

    def _broken(self) -> tuple[str, str] | None:
        """The first part that is not at work, and what became of it."""
        for part, number in self._parts.items():
            try:
                stat = self.path(f"/proc/{number}/stat").read_text(errors="replace")
                state = stat.rpartition(")")[2].split()[0]
            except OSError:
                state = "X"
            if state in "XZTt":
                return part, "has ended" if state in "XZ" else "is stopped"
        return None

    def _hang_up(self) -> None:
        while self._closers:
            self._closers.pop().close()

    def _programs(self) -> tuple[Program, ...]:
        bus = ("dbus-daemon", "--config-file=/etc/envs/session.conf", "--nofork", "--nopidfile")
        accessibility = ("/usr/libexec/at-spi-bus-launcher", "--launch-immediately", "--a11y=1")
        return (
            Program("xserver", server_argv(self.kind, needs_gl=self._shell.needs_gl)),
            Program("dbus", bus),
            Program(_ACCESSIBILITY, accessibility, after=(SESSION_BUS,)),
            *self._shell.programs,
            Program("guest", _GUEST),
        )

    def _create(self) -> None:
        """Start it with all its parts at once: each waits in there for what it needs."""
        programs = self._programs()
        self.pid, numbers = self._launcher.start(self.kind, programs, self._environment)
        self._parts = {
            program.name: number
            for program, number in zip(programs, numbers, strict=True)
            if program.name != _ACCESSIBILITY
        }

    def _start(self) -> None:
        if self.kind.allowed_hosts:
            self._open_bridge()
            self.begin("network", *network.RELAY)
            log = self.path("/run/share/log/network.log")
            self._wait(lambda: "listening" in log.read_text(), "no way out", START_TIMEOUT_S)
        self._connect_display()
        self.input.wake()
        self._connect_buses()
        name = f"the {self.kind.session} session was not ready"
        self._wait(lambda: self._shell.is_ready(self), name, self._shell.start_timeout_s)
        if self._shell.quiet_ms:
            quiet = Quiet(quiet_ms=self._shell.quiet_ms)
            wait_still(self.screen.digest, lambda: quiet)

    def _connect_display(self) -> None:
        self.connection = XConnection(self.path(X_SOCKET), START_TIMEOUT_S, self._require_starting)
        self._closers.append(self.connection)
        self.screen = Screen(self.path(X_SOCKET), self.width, self.height)
        self._closers.append(self.screen)
        try:
            self.input = Input(self.connection, self.width, self.height, self.path)
        except LOST as error:
            raise DesktopLostError(f"the X server takes no input: {error}") from error

    def _connect_buses(self) -> None:
        root = f"/proc/{self.pid}/root"
        self.accessibility = AccessibilityBus(f"{root}{SESSION_BUS}", root, START_TIMEOUT_S)
        self._closers.append(self.accessibility)

    def _open_bridge(self) -> None:
        path = self.path(relay.SOCKET_PATH)
        self._closers.append(network.Bridge(path, self.kind.allowed_hosts, desktop=self.pid))

    def _wait(self, is_there: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until something is so, as long as every part of the desktop lives."""
        deadline = time.monotonic() + timeout_s
        while not is_there():
            self._require_starting()
            if time.monotonic() > deadline:
                raise DesktopLostError(f"{what} within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def _require_starting(self) -> None:
        """As `require_whole`, with the last words of the part that ended."""
        if broken := self._broken():
            part, how = broken
            said = read_inside(self.path(f"/run/share/log/{part}.log"), _LOG_BYTES).strip()
            raise DesktopLostError(f"the desktop's {part} {how}: {said}")
