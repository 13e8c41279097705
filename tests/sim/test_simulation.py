"""A simulation repeats exactly, finds what its world holds, and goes through every fault."""

from __future__ import annotations

import msgspec

from envs_node.deploy.sim.faults import CALM, HARSH, Faults
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.deploy.sim.trial import FREE, Laboratory, may_compare
from envs_node.deploy.sim.world import WorldSettings
from tests.sim.seeds import TIGHT, times

SMALL = SimSettings(
    seed=5,
    desktops=6,
    nodes=2,
    world=WorldSettings(seed=5, tasks=2, depth=3, idle_rate=0.0, fragile_rate=0.0),
    search=FREE,
    storm_s=120.0,
)


def test_the_same_seed_gives_the_same_run_message_for_message():
    settings = msgspec.structs.replace(SMALL, faults=times(HARSH, 3), keeps_branches=True)
    laboratory = Laboratory()

    first, second = (laboratory.attempt(settings).outcome for _ in range(2))

    assert first.faults
    assert first.digest == second.digest
    assert (first.progress, first.faults, first.messages) == (
        second.progress,
        second.faults,
        second.messages,
    )


def test_another_seed_gives_another_run():
    first, second = (
        Laboratory().attempt(msgspec.structs.replace(SMALL, seed=seed)).outcome for seed in (1, 2)
    )

    assert first.digest != second.digest


def test_a_calm_run_loses_nothing_and_sends_nothing_out_again():
    trial = Laboratory().attempt(SMALL)

    assert trial.wrong == ()
    assert trial.outcome.progress is not None
    assert {task.reassigned for task in trial.outcome.progress.tasks} == {0}
    assert trial.trajectories


def test_what_is_found_does_not_depend_on_how_many_desktops_look():
    found = [
        {(t.task_id, t.path) for t in Laboratory().attempt(settings).trajectories}
        for settings in (SMALL, msgspec.structs.replace(SMALL, seed=9, desktops=24, nodes=3))
    ]

    assert found[0] == found[1]


def test_a_storm_strikes_with_every_fault_and_every_kind_is_recovered_from():
    hard = msgspec.structs.replace(
        SMALL, faults=times(HARSH, 6), storm_s=300.0, desktops=12, nodes=3
    )

    trial = Laboratory().attempt(hard)

    assert trial.wrong == ()
    assert trial.is_compared
    rates = [name for name in HARSH.__struct_fields__ if name.endswith(("s", "es"))]
    kinds = {name for name in rates if not name.endswith("_s")}
    assert kinds - set(trial.outcome.faults) == set()
    assert trial.outcome.messages["lost"]
    assert trial.outcome.messages["doubled"]
    assert trial.outcome.messages["late"]
    assert {"node_crashes", "head_crashes"} <= set(trial.outcome.watch.recoveries_s)


def test_a_ledger_is_compared_only_where_order_cannot_matter():
    tight = msgspec.structs.replace(SMALL, search=TIGHT)
    fragile = msgspec.structs.replace(
        SMALL, world=msgspec.structs.replace(SMALL.world, idle_rate=0.1)
    )

    assert may_compare(SMALL)
    assert not may_compare(tight)
    assert not may_compare(fragile)
    assert SMALL.faults == CALM


def test_a_run_that_a_full_disk_paused_goes_on_when_there_is_room_though_nothing_else_stirs():
    alone = msgspec.structs.replace(
        SMALL, desktops=2, nodes=1, faults=Faults(disk_fills=400), storm_s=200.0, time_max_s=900.0
    )

    trial = Laboratory().attempt(alone)

    assert trial.outcome.faults["disk_fills"] > 5
    assert trial.wrong == ()
