"""Density: how much memory each of many desktops takes, all of them running and all correct.

One desktop of each application is driven alone first. Then so many are driven at the same time:
each types a mark of its own, must show what the one alone shows with the same mark, must show
what no other shows, and must save its own mark and no other's.

    python benchmarks/density.py [--mousepad 24] [--calc 10] [--steps 10] [--json]
    python benchmarks/density.py --check                        # as `envs-node plan --check`

A desktop's memory is the proportional set size of its programs and all that it wrote to its file
systems, which lie in memory; what a program maps of that counts twice. Exits with 1 when a desktop
is wrong, or takes more than it may.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from timing import machine

from envs_node.deploy.cli.plan import PlanVerb
from envs_node.deploy.fleet import Driven, Fleet
from envs_node.deploy.logs import keep_logs

MIB = 1 << 20
LIMITS_MB = {"mousepad": 70, "calc": 250}


def measure(app: str, count: int, steps: int) -> dict[str, object]:
    """Drive one alone, and then so many."""
    alone = Fleet([app])
    try:
        (model,) = alone.drive(steps)
        alone_rate = alone.rates(steps)[0]
    finally:
        alone.close()
    fleet = Fleet([app] * count)
    try:
        driven = fleet.drive(steps)
        rate, cpu_s = fleet.rates(steps)
    finally:
        fleet.close()
    sizes = [one.memory_bytes / MIB for one in driven]
    return {
        "app": app, "desktops": count, "median_mb": statistics.median(sizes),
        "least_mb": min(sizes), "most_mb": max(sizes), "limit_mb": LIMITS_MB.get(app),
        "private_mb": statistics.median(one.private_bytes / MIB for one in driven),
        "alone_mb": model.memory_bytes / MIB, "steps_s": rate, "steps_s_alone": alone_rate,
        "cpu_s_step": cpu_s, "reset_s": statistics.median(one.reset_s for one in driven),
        "faults": faults(model, driven),
    }  # fmt: skip


def faults(model: Driven, driven: tuple[Driven, ...]) -> list[str]:
    """What is wrong with any of them."""
    found = [f"{one.mark}: not saved" for one in driven if not one.is_saved]
    found += [
        f"{one.mark}: starts with another picture than one alone"
        for one in driven
        if one.start_frame != model.start_frame
    ]
    if driven[0].marked_frame != model.marked_frame:
        found.append(f"{driven[0].mark}: shows another picture than one alone")
    shown = len({one.marked_frame for one in driven})
    if shown != len(driven):
        found.append(f"{len(driven)} marks, but {shown} pictures")
    return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mousepad", type=int, default=24)
    parser.add_argument("--calc", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        sys.exit(PlanVerb(check=True, json=options.json).run())
    counts = {"mousepad": options.mousepad, "calc": options.calc}
    with keep_logs(node="density"):
        results = [measure(app, count, options.steps) for app, count in counts.items() if count]
    if options.json:
        sys.stdout.write(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")
    else:
        sys.stdout.write(f"{machine()}\n" + "".join(map(line, results)))
    is_wrong = any(
        result["faults"] or float(str(result["most_mb"])) > float(str(result["limit_mb"]))
        for result in results
    )
    sys.exit(int(is_wrong))


def line(result: dict[str, object]) -> str:
    """One result for people."""
    return (
        "{desktops} x {app}: median {median_mb:.1f} MB each ({least_mb:.1f}-{most_mb:.1f}, "
        "limit {limit_mb}); {private_mb:.1f} its own; alone {alone_mb:.1f}\n"
        "    {steps_s:.1f} steps/s together, {steps_s_alone:.1f} alone, {cpu_s_step:.3f} CPU s a "
        "step; reset {reset_s:.2f} s\n    wrong: {faults}\n"
    ).format(**result)


if __name__ == "__main__":
    main()
