"""Applications: how soon each stands there, and what it takes of memory and disk.

Each round starts every application on a fresh desktop, in turn, as a set-up step does. Memory is
what the desktop takes more than an empty one; disk is what the installed packages that it needs
take more than those of the session.

    PYTHONPATH=. python benchmarks/applications.py [--rounds 5] [APPLICATION ...]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable

from structlog.testing import capture_logs
from timing import machine

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.fleet import memory_of
from tests.actors.desktop.applications import APPLICATIONS
from tests.fakes_desktop import make_task, open_task

MIB = 1 << 20
PACKAGES = {
    "calc": ("libreoffice-calc", "libreoffice-gtk3"),
    "writer": ("libreoffice-writer", "libreoffice-gtk3"),
    "impress": ("libreoffice-impress", "libreoffice-gtk3"),
    "chrome": ("chromium",),
}
SESSION = (
    "xvfb openbox dbus at-spi2-core adwaita-icon-theme librsvg2-common gsettings-desktop-schemas"
    " fonts-dejavu-core fonts-liberation2 x11-utils wmctrl xclip xdg-utils python3 procps"
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", default=list(APPLICATIONS))
    options = parser.parse_args()
    sys.stdout.write(machine() + "\n")
    found: dict[str, list[tuple[int, int, float]]] = {name: [] for name in options.names}
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            for _ in range(options.rounds):
                sandbox.reset(make_task())
                empty = sum(memory_of(sandbox.guest_pid))
                for name in options.names:
                    found[name].append(measure(sandbox, name, empty))
        finally:
            sandbox.close()
    installed = packages()
    base = closure(SESSION.split(), installed)
    sys.stdout.write(
        "| application | window ms | ready ms | memory MB | disk MB |\n|---|---|---|---|---|" + "\n"
    )
    for name, rows in found.items():
        needed = closure(PACKAGES.get(name, (name,)), installed) - base
        disk = sum(installed[package][0] for package in needed) / 1024
        columns = [spread(column) for column in zip(*rows, strict=True)]
        sys.stdout.write(f"| {name} | {' | '.join(columns)} | {disk:.0f} |" + "\n")


def measure(sandbox: Sandbox, name: str, empty_bytes: int) -> tuple[int, int, float]:
    """Milliseconds to the first window and to readiness, and MiB more than an empty desktop."""
    with capture_logs() as logs:
        sandbox.reset(open_task(*APPLICATIONS[name].argv))
    (log,) = [log for log in logs if log["event"] == "program.launched"]
    taken = sum(memory_of(sandbox.guest_pid)) - empty_bytes
    return log["window_ms"], log["ready_ms"], taken / MIB


def spread(values: Iterable[float]) -> str:
    """Median, and the least and the most."""
    column = sorted(values)
    return f"{statistics.median(column):.0f} ({column[0]:.0f}-{column[-1]:.0f})"


def packages() -> dict[str, tuple[int, list[list[str]]]]:
    """Each installed package's size in KiB, and its needs: one of each list."""
    form = "${Package}\t${Installed-Size}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split("\t") for line in said.splitlines()]
    providers: dict[str, list[str]] = {}
    for name, _, _, provides in rows:
        for other in (name, *_names(provides.replace("|", ","))):
            providers.setdefault(other, []).append(name)
    return {
        name: (
            int(size or 0),
            [
                [
                    real
                    for wanted in _names(group.replace("|", ","))
                    for real in providers.get(wanted, [])
                ]
                for group in needs.split(",")
            ],
        )
        for name, size, needs, _ in rows
    }


def closure(names: Iterable[str], installed: dict[str, tuple[int, list[list[str]]]]) -> set[str]:
    """These packages and all that they need."""
    found: set[str] = set()
    left = [name for name in names if name in installed]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [group[0] for group in installed[name][1] if group]
    return found


def _names(listed: str) -> list[str]:
    return [re.split(r"[ (:]", word.strip())[0] for word in listed.split(",") if word.strip()]


if __name__ == "__main__":
    main()
