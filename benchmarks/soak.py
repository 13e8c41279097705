"""Soak: hundreds of episodes on one node's launcher and pool; nothing grows, nothing gets slow.

Each episode resets (a desktop that stands ready, where one does), types, saves, and checks what
was saved; xterm and mousepad take turns. Beside it a thread fills the pool's place, as a node does.

    python benchmarks/soak.py [--episodes 300] [--json]

Prints the thirds of the run side by side: reset time, its processor time, memory of this process
and of the one that starts desktops, open files, threads. Since other work on the machine comes and
goes, the last resets take turns with resets by a process that starts desktops and that is new.
Exits with 1 when the last third is worse than the first, or the old one slower than the new.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
from pathlib import Path

from timing import machine

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions, Pool
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.fleet import APPLICATIONS, mark_desktop, reset_desktop
from envs_node.deploy.logs import keep_logs

APPS = ("xterm", "mousepad")
MIB = 1 << 20
SLOWER_MAX, CPU_MAX, GROWN_BYTES_MAX = 1.25, 1.5, 24 * MIB
JITTER_MAX = 8
"""Of open files and threads: a desktop that stands ready, or not, at the moment of the look."""
TURNS = 20


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
                _, reset_s, cpu_s = reset_desktop(desktop, application)
                _, is_saved = mark_desktop(desktop, application, f"mark{number}")
                seen.append(_look(launcher.pid, reset_s, cpu_s, is_saved=is_saved))
        finally:
            is_over.set()
            filler.join()
            desktop.close()
            pool.places[0].close()
        seen[-1]["ready"] = pool.statistics()["ready"]
        seen[-1]["old_to_new"] = compare_with_new(launcher)
    return seen


def compare_with_new(old: Launcher) -> float:
    """Reset time with this launcher over that with a new one, in turns, on fresh desktops."""
    times: dict[Launcher, list[float]] = {}
    with Launcher() as new:
        for launcher in [old, new] * TURNS:
            desktop = Sandbox(launcher)
            times.setdefault(launcher, []).append(
                reset_desktop(desktop, APPLICATIONS["mousepad"])[1]
            )
            desktop.close()
        return statistics.median(times[old]) / statistics.median(times[new])


def worse(seen: list[dict[str, float]]) -> list[str]:
    """What of the last third is worse than the first."""
    third = len(seen) // 3
    first, last = seen[:third], seen[-third:]

    def median(part: list[dict[str, float]], name: str) -> float:
        return statistics.median(one[name] for one in part)

    found = [f"{sum(not one['saved'] for one in seen):.0f} marks were not saved"]
    found = found if any(not one["saved"] for one in seen) else []
    if seen[-1]["old_to_new"] > SLOWER_MAX:
        found.append("resets got slower")
    if median(last, "reset_cpu_s") > CPU_MAX * median(first, "reset_cpu_s"):
        found.append("resets take more processor time")
    for name in ("own_bytes", "launcher_bytes"):
        if median(last, name) > median(first, name) + GROWN_BYTES_MAX:
            found.append(f"{name} grew")
    for name in ("files", "launcher_files", "threads"):
        if median(last, name) > median(first, name) + JITTER_MAX:
            found.append(f"{name} grew")
    return found


def _fill(pool: Pool, kind: DesktopKind, is_over: threading.Event) -> None:
    while not is_over.wait(0.05):
        if pool.places[0].pid == 0:
            pool.places[0].fill(pool.fresh, kind)


def _look(launcher: int, reset_s: float, cpu_s: float, *, is_saved: bool) -> dict[str, float]:
    return {
        "reset_s": reset_s,
        "reset_cpu_s": cpu_s,
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
    with keep_logs(node="soak"):
        seen = soak(options.episodes)
    faults = worse(seen)
    third = len(seen) // 3
    if options.json:
        sys.stdout.write(json.dumps({"machine": machine(), "seen": seen, "worse": faults}) + "\n")
    else:
        sys.stdout.write(f"{machine()}\n{len(seen)} episodes, {seen[-1]['ready']:.0f} ready ones\n")
        for name, unit in (("reset_s", 0.001), ("reset_cpu_s", 0.001), ("own_bytes", MIB),
                           ("launcher_bytes", MIB), ("files", 1), ("launcher_files", 1),
                           ("threads", 1)):  # fmt: skip
            parts = (seen[:third], seen[third : 2 * third], seen[-third:])
            values = [statistics.median(one[name] for one in part) / unit for part in parts]
            words = {0.001: f"{name.removesuffix('_s')}_ms", MIB: f"{name} / MiB"}.get(unit, name)
            sys.stdout.write(f"{words:22s}" + "".join(f"{value:10.1f}" for value in values) + "\n")
        ratio = seen[-1]["old_to_new"]
        sys.stdout.write(f"reset by the old launcher over a new one, in turns: {ratio:.2f}\n")
        sys.stdout.write(f"worse: {', '.join(faults) or 'nothing'}\n")
    sys.exit(int(bool(faults)))


if __name__ == "__main__":
    main()
