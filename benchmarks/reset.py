"""Reset: ours, against a fresh Xvfb session without namespaces, overlay or settings.

Each round destroys a desktop and starts a fresh one, until its X server, buses and window manager
answer; the alternative starts the same four programs on the host itself and ends them by signal,
and leaves behind what they wrote. Rounds alternate, in the same run.

    python benchmarks/reset.py [--rounds 15]
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

from timing import describe, measure_ms

from envs_node.actors.desktop.accessibility import AccessibilityBus
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import START_TIMEOUT_S, Session
from envs_node.actors.desktop.xserver import XConnection

DISPLAY = 947
SIZE = (1280, 720)


class OurDesktop:
    """Reset by a new session."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._session = Session(launcher, *SIZE)

    def reset(self) -> None:
        """Destroy and start over."""
        self._session.close()
        self._session = Session(self._launcher, *SIZE)

    def close(self) -> None:
        """Destroy."""
        self._session.close()


class BareDesktop:
    """The same programs on the host, in no namespace, over no overlay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs: list[subprocess.Popen[bytes]] = []

    def reset(self) -> None:
        """End all programs and start them again."""
        self.close()
        bus = self._folder / "bus"
        environment = {
            "PATH": "/usr/bin:/bin", "DISPLAY": f":{DISPLAY}", "HOME": str(self._folder),
            "XDG_RUNTIME_DIR": str(self._folder), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}",
        }  # fmt: skip
        size = "x".join(map(str, SIZE))
        self._start(environment, "Xvfb", f":{DISPLAY}", "-screen", "0", f"{size}x24", "-nolisten",
                    "tcp", "-noreset", "-ac", "-extension", "GLX")  # fmt: skip
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


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    ours: list[float] = []
    theirs: list[float] = []
    with Launcher() as launcher, tempfile.TemporaryDirectory() as folder:
        desktop, bare = OurDesktop(launcher), BareDesktop(Path(folder))
        try:
            bare.reset()
            for _ in range(options.rounds):
                ours += measure_ms(desktop.reset, 1)
                theirs += measure_ms(bare.reset, 1)
        finally:
            bare.close()
            desktop.close()
    ratio = statistics.median(theirs) / statistics.median(ours)
    sys.stdout.write(
        f"{options.rounds} rounds each, {SIZE[0]}x{SIZE[1]}, before any application\n"
        f"{describe('ours (isolated, fresh disk)', ours)}\n"
        f"{describe('bare Xvfb session', theirs)}\n"
        f"ratio theirs/ours: {ratio:.2f}\n"
    )


if __name__ == "__main__":
    main()
