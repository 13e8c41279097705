"""What each seed of the tests simulates: few desktops or many, calm weather or a storm."""

from __future__ import annotations

from random import Random

import msgspec

from envs_node.deploy.sim.faults import HARSH, MILD, Faults
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.deploy.sim.trial import FREE
from envs_node.deploy.sim.world import WorldSettings
from envs_node.messages.lifecycle import SearchSettings

WORLDS = 8
TIGHT = SearchSettings(
    leaves_task_max=5,
    successes_task_max=2,
    actions_task_max=60,
    infra_retries_max=100,
    interruptions_max=1000,
    lease_ms=10_000,
)


def settings_of(seed: int) -> SimSettings:
    """One simulation for each seed.

    Every fourth has budgets that bind, and keeps pictures; in those and some others, actions that
    change nothing lead to one screen by several paths. The rest are held against a calm run.
    """
    chance = Random(f"test/{seed}")
    desktops = chance.choice((2, 4, 4, 8, 8, 8, 16, 16, 32, 64))
    is_tight = seed % 4 == 3
    is_mixed = is_tight or seed % 6 == 0
    return SimSettings(
        seed=seed,
        desktops=desktops,
        nodes=min(desktops, chance.choice((1, 2, 3, 5))),
        policies=chance.choice((1, 2)),
        world=WorldSettings(
            seed=seed % WORLDS,
            tasks=chance.choice((2, 3, 4)) if is_tight else 2,
            depth=3,
            success_rate=0.4,
            idle_rate=0.1 if is_mixed else 0.0,
            fragile_rate=0.2 if is_mixed else 0.0,
        ),
        search=msgspec.structs.replace(
            TIGHT if is_tight else FREE, certify_replays=3 if seed % 5 == 2 else 1
        ),
        faults=chance.choice((MILD, HARSH, times(HARSH, 2), times(HARSH, 4))),
        storm_s=120.0,
        keeps_branches=seed % 5 == 0,
    )


def times(faults: Faults, factor: float) -> Faults:
    """The same faults, so much more often."""
    rates = {
        name: value * factor
        for name, value in msgspec.structs.asdict(faults).items()
        if isinstance(value, int | float) and not name.endswith("_s")
    }
    return msgspec.structs.replace(faults, **rates)
