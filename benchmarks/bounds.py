"""What the bounds of a desktop cost: its filter of system calls, and its control groups.

Rounds alternate, in the same run. The groups are made, limited, entered by a process and removed,
as for each desktop; a reset without them cannot be had where they can be.

    python benchmarks/bounds.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

from timing import describe, machine, measure_ms

from envs_node.actors.desktop.cgroups import Place, find_place
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import Session

LIMITS = {"memory_bytes": 1 << 30, "processes_max": 1000, "cpus": 0.0}


def reset(launcher: Launcher, kind: DesktopKind) -> None:
    """Start a desktop, and destroy it."""
    Session(launcher, kind).close()


def group(place: Place) -> None:
    """Make groups, have a process live and end in them, and remove them."""
    made = place.make(LIMITS)
    child = os.fork()
    if child == 0:
        made.enter()
        os._exit(0)
    os.waitpid(child, 0)
    made.remove()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    kinds = {True: DesktopKind(), False: DesktopKind(filters_calls=False)}
    taken: dict[bool, list[float]] = {True: [], False: []}
    place = find_place("benchmark")
    with Launcher() as launcher:
        reset(launcher, kinds[True])
        for _ in range(options.rounds):
            for is_filtered, kind in kinds.items():
                taken[is_filtered] += measure_ms(lambda kind=kind: reset(launcher, kind), 1)
    groups = measure_ms(lambda: group(place), options.rounds)
    place.close()
    ratio = statistics.median(taken[True]) / statistics.median(taken[False])
    sys.stdout.write(
        f"{options.rounds} rounds each; a desktop is started and destroyed\n"
        f"{describe('with its filter', taken[True])}\n"
        f"{describe('without', taken[False])}\n"
        f"{describe('its control groups', groups)}\n"
        f"ratio {ratio:.2f}\n{machine()}\n"
    )


if __name__ == "__main__":
    main()
