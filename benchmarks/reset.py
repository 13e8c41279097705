"""Reset and stop: how soon a fresh desktop stands, and how soon nothing of it is left.

Reset, three ways in one run, one after the other: a session (X server, buses, window manager and
OSWorld's server answer), a whole `Sandbox.reset` of a task without set-up (with the wait for a
still picture and the first observation), and the same four programs on the host itself, without
namespaces, overlay or settings. Then `Sandbox.close` with applications open; after each one no
process, control group, mount or socket of the desktop may be left.

    python benchmarks/reset.py [--rounds 20] [--session openbox] [--stops 20]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from desktops import APPLICATIONS, Traces, make_task, mounts, quiet_logs, sockets
from timing import describe, machine, measure_ms

from envs_node.actors.desktop.accessibility import AccessibilityBus
from envs_node.actors.desktop.guestclient import SOCKET_PATH
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import START_TIMEOUT_S, Session
from envs_node.actors.desktop.xserver import XConnection

DISPLAY = 947


class OurDesktop:
    """Reset by a new session."""

    def __init__(self, launcher: Launcher, kind: DesktopKind) -> None:
        self._launcher, self._kind = launcher, kind
        self._session = Session(launcher, kind)

    def reset(self) -> None:
        """Destroy and start over."""
        self._session.close()
        self._session = Session(self._launcher, self._kind)
        self._session.wait_path(SOCKET_PATH)

    def close(self) -> None:
        """Destroy."""
        self._session.close()


class BareDesktop:
    """The same programs on the host, in no namespace, over no overlay."""

    def __init__(self, folder: Path, size: str) -> None:
        self._folder, self._size = folder, size
        self._programs: list[subprocess.Popen[bytes]] = []

    def reset(self) -> None:
        """End all programs and start them again."""
        self.close()
        bus = self._folder / "bus"
        environment = {
            "PATH": "/usr/bin:/bin", "DISPLAY": f":{DISPLAY}", "HOME": str(self._folder),
            "XDG_RUNTIME_DIR": str(self._folder), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}",
        }  # fmt: skip
        self._start(environment, "Xvfb", f":{DISPLAY}", "-screen", "0", f"{self._size}x24",
                    "-nolisten", "tcp", "-noreset", "-ac", "-extension", "GLX")  # fmt: skip
        self._start(environment, "dbus-daemon", "--session", "--nofork", "--nopidfile",
                    f"--address=unix:path={bus}")  # fmt: skip
        while not bus.exists():
            time.sleep(0.003)
        self._start(
            environment, "/usr/libexec/at-spi-bus-launcher", "--launch-immediately", "--a11y=1"
        )
        connection = XConnection(Path(f"/tmp/.X11-unix/X{DISPLAY}"), START_TIMEOUT_S)
        self._start(environment, "openbox", "--sm-disable")
        accessibility = AccessibilityBus(str(bus), "", START_TIMEOUT_S)
        while not connection.has_window_manager():
            time.sleep(0.003)
        accessibility.close()
        connection.close()

    def _start(self, environment: dict[str, str], *argv: str) -> None:
        program = subprocess.Popen(
            argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._programs.append(program)

    def close(self) -> None:
        """End all programs, with what they started."""
        for program in reversed(self._programs):
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        self._programs.clear()
        (self._folder / "bus").unlink(missing_ok=True)
        for name in (f"/tmp/.X11-unix/X{DISPLAY}", f"/tmp/.X{DISPLAY}-lock"):
            Path(name).unlink(missing_ok=True)


def measure_resets(launcher: Launcher, kind: DesktopKind, rounds: int) -> str:
    """Time all three, alternating."""
    session, whole, bare = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        desktop, sandbox = OurDesktop(launcher, kind), Sandbox(launcher, kind)
        other = BareDesktop(Path(folder), f"{kind.width}x{kind.height}")
        try:
            other.reset()
            sandbox.reset(make_task(()))
            for _ in range(rounds):
                session += measure_ms(desktop.reset, 1)
                whole += measure_ms(lambda: sandbox.reset(make_task(())), 1)
                bare += measure_ms(other.reset, 1)
        finally:
            other.close()
            desktop.close()
            sandbox.close()
    ratio = statistics.median(bare) / statistics.median(session)
    return (
        f"{describe('session (isolated, fresh disk)', session)}\n"
        f"{describe('Sandbox.reset, observed', whole)}\n"
        f"{describe('bare Xvfb session', bare)}\n"
        f"ratio bare/session: {ratio:.2f}\n"
    )


def measure_stop(launcher: Launcher, kind: DesktopKind, argv: tuple[str, ...]) -> float:
    """Time one `close`, and refuse to go on when anything is left of the desktop."""
    seen, descriptors = mounts(), sockets()
    sandbox = Sandbox(launcher, kind)
    try:
        sandbox.reset(make_task(argv))
        group = launcher.group(sandbox.guest_pid)
        folders = {folder for _, folder in group.folders.values()}
        traces = Traces(sandbox.guest_pid, folders, seen, descriptors)
    finally:
        start = time.perf_counter()
        sandbox.close()
        took_ms = (time.perf_counter() - start) * 1000
    if left := traces.left():
        raise SystemExit(f"left of a desktop with {argv}: {', '.join(left)}")
    return took_ms


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--session", default="openbox", choices=("openbox", "gnome"))
    options = parser.parse_args()
    kind = DesktopKind(session=options.session)
    quiet_logs()
    sys.stdout.write(f"{machine()}\n{kind.width}x{kind.height}, {kind.session}\n")
    with Launcher() as launcher:
        if options.rounds:
            sys.stdout.write(f"reset, {options.rounds} rounds each\n")
            sys.stdout.write(measure_resets(launcher, kind, options.rounds))
        if options.stops:
            sys.stdout.write(f"stop, {options.stops} rounds each; nothing is left after any\n")
        for name, argv in APPLICATIONS.items() if options.stops else ():
            measure_stop(launcher, kind, argv)  # what is made once is made here
            times = [measure_stop(launcher, kind, argv) for _ in range(options.stops)]
            sys.stdout.write(f"{describe(f'stop with {name} open', times)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
