"""The simulation's cost of a desktop step: 2,000 desktops with 200 tasks against 200 with 20.

Rounds of the two sizes are taken in turns, in one process and on one core; what is counted is the
process's own time. Each size has as many tasks a desktop, so a desktop has as much to do in both.

    python benchmarks/simulate.py [--rounds 3] [--faults none|mild]
"""

from __future__ import annotations

import argparse
import statistics
import sys

from envs_node.deploy.sim.faults import CALM, MILD
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.deploy.sim.trial import Laboratory
from envs_node.deploy.sim.world import WorldSettings

SIZES = ((200, 20), (2000, 200))
RATIO_MAX = 1.3


def main() -> None:
    """Measure, and say the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", choices=("none", "mild"), default="none")
    given = parser.parse_args()
    costs: dict[int, list[float]] = {desktops: [] for desktops, _ in SIZES}
    for seed in range(given.rounds):
        for desktops, tasks in SIZES:
            costs[desktops].append(_step_ms(desktops, tasks, seed, given.faults))
    for desktops, tasks in SIZES:
        each = costs[desktops]
        sys.stdout.write(
            f"{desktops:5d} desktops, {tasks:3d} tasks: {statistics.median(each):.2f} ms a step "
            f"(from {min(each):.2f} to {max(each):.2f}, {given.rounds} rounds)\n"
        )
    few, many = (statistics.median(costs[desktops]) for desktops, _ in SIZES)
    sys.stdout.write(f"ratio {many / few:.2f}; at most {RATIO_MAX} is wanted\n")


def _step_ms(desktops: int, tasks: int, seed: int, faults: str) -> float:
    settings = SimSettings(
        seed=seed,
        desktops=desktops,
        nodes=-(-desktops // 16),
        policies=-(-desktops // 64),
        world=WorldSettings(seed=seed, tasks=tasks),
        faults=MILD if faults == "mild" else CALM,
    )
    trial = Laboratory().attempt(settings)
    assert not trial.wrong, trial.wrong[:3]
    return trial.wall_s * 1000 / trial.outcome.performed


if __name__ == "__main__":
    main()
