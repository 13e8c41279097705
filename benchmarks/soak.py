"""Soak: hundreds of episodes on one node's launcher and pool; nothing grows, nothing gets slow.

Each episode resets (a desktop that stands ready, where one does), types, saves, and checks what
was saved; xterm and mousepad take turns. Beside it a thread fills the pool's place, as a node does.

    python benchmarks/soak.py [--episodes 300] [--json]

Prints the thirds of the run side by side: reset time, memory of this process and of the one that
starts desktops, open files, processes. Exits with 1 when the last third is worse than the first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from timing import machine

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions, Pool
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.fleet import APPLICATIONS, mark_desktop, reset_desktop

APPS = ("xterm", "mousepad")
MIB = 1 << 20
SLOWER_MAX, GROWN_BYTES_MAX = 1.5, 24 * MIB


def soak(episodes: int) -> list[dict[str, float]]:
    """Drive so many; what was seen after each."""
    kind, seen = DesktopKind(), []
    with Launcher() as launcher:
        pool = Pool(FreshSessions(launcher), places=1)
        desktop, is_over = Sandbox(launcher, kind, sessions=pool), threading.Event()
        filler = threading.Thread(target=_fill, args=(pool, kind, is_over))
        filler.start()
        try:
            for number in range(episodes):
                application = APPLICATIONS[APPS[number % len(APPS)]]
                began_s = time.monotonic()
                reset_desktop(desktop, application)
                reset_s = time.monotonic() - began_s
                _, is_saved = mark_desktop(desktop, application, f"mark{number}")
                seen.append(_look(launcher.pid, reset_s, is_saved=is_saved))
        finally:
            is_over.set()
            filler.join()
            desktop.close()
            pool.places[0].close()
        seen[-1]["ready"] = pool.statistics()["ready"]
    return seen


def worse(seen: list[dict[str, float]]) -> list[str]:
    """What of the last third is worse than the first."""
    third = len(seen) // 3
    first, last = seen[:third], seen[-third:]

    def median(part: list[dict[str, float]], name: str) -> float:
        return statistics.median(one[name] for one in part)

    found = [f"{sum(not one['saved'] for one in seen):.0f} marks were not saved"]
    found = found if any(not one["saved"] for one in seen) else []
    if median(last, "reset_s") > SLOWER_MAX * median(first, "reset_s"):
        found.append("resets got slower")
    for name in ("own_bytes", "launcher_bytes"):
        if median(last, name) > median(first, name) + GROWN_BYTES_MAX:
            found.append(f"{name} grew")
    for name in ("files", "launcher_files", "threads"):
        if median(last, name) > median(first, name) + 2:
            found.append(f"{name} grew")
    return found


def _fill(pool: Pool, kind: DesktopKind, is_over: threading.Event) -> None:
    while not is_over.wait(0.05):
        if pool.places[0].pid == 0:
            pool.places[0].fill(pool.fresh, kind)


def _look(launcher: int, reset_s: float, *, is_saved: bool) -> dict[str, float]:
    return {
        "reset_s": reset_s,
        "saved": is_saved,
        "own_bytes": _resident(os.getpid()),
        "launcher_bytes": _resident(launcher),
        "files": len(os.listdir("/proc/self/fd")),
        "launcher_files": len(os.listdir(f"/proc/{launcher}/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Soak and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seen = soak(options.episodes)
    faults = worse(seen)
    third = len(seen) // 3
    if options.json:
        sys.stdout.write(json.dumps({"machine": machine(), "seen": seen, "worse": faults}) + "\n")
    else:
        sys.stdout.write(f"{machine()}\n{len(seen)} episodes, {seen[-1]['ready']:.0f} ready ones\n")
        for name, unit in (("reset_s", 0.001), ("own_bytes", MIB), ("launcher_bytes", MIB),
                           ("files", 1), ("launcher_files", 1), ("threads", 1)):  # fmt: skip
            parts = (seen[:third], seen[third : 2 * third], seen[-third:])
            values = [statistics.median(one[name] for one in part) / unit for part in parts]
            words = {0.001: f"{name.removesuffix('_s')}_ms", MIB: f"{name} / MiB"}.get(unit, name)
            sys.stdout.write(f"{words:22s}" + "".join(f"{value:10.1f}" for value in values) + "\n")
        sys.stdout.write(f"worse: {', '.join(faults) or 'nothing'}\n")
    sys.exit(int(bool(faults)))


if __name__ == "__main__":
    main()
