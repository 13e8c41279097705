"""What a simulation prints to be repeated repeats it."""

from __future__ import annotations

import shlex

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.deploy.cli.simulate import Simulate
from envs_node.deploy.sim.command import SimulateError, command_of, read_settings
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.deploy.sim.trial import Laboratory
from envs_node.messages.lifecycle import SearchSettings
from tests.sim.seeds import settings_of


def _typed(command: str) -> SimSettings:
    """What the command would simulate."""
    *verb, option, given = shlex.split(command)
    assert [*verb, option] == ["envs-node", "simulate", "--settings"]
    return read_settings(given)


@given(st.integers(0, 10_000))
@settings(max_examples=50)
def test_the_command_holds_all_that_a_seed_of_the_tests_simulates(seed: int):
    simulated = settings_of(seed)

    assert _typed(command_of(simulated)) == simulated


def test_the_command_repeats_a_storm_message_for_message():
    simulated = settings_of(1)

    digests = {
        Laboratory().attempt(chosen).outcome.digest
        for chosen in (simulated, _typed(command_of(simulated)))
    }

    assert len(digests) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "--settings"),
        ('{"desktops": 0}', "--desktops is 0"),
        ('{"nodes": 99}', "--nodes is 99"),
        ('{"colour": 1}', "colour"),
        ('{"search": {"samples": 0}}', "search.samples"),
    ],
)
def test_settings_that_make_no_simulation_are_refused_by_name(text: str, named: str):
    with pytest.raises(SimulateError, match=named):
        read_settings(text)


def test_only_what_is_not_as_usual_stands_in_the_command():
    search = SearchSettings(lease_ms=5000)

    command = command_of(msgspec.structs.replace(SimSettings(), seed=7, search=search))

    assert command == ("""envs-node simulate --settings '{"seed":7,"search":{"lease_ms":5000}}'""")


def test_a_harsh_storm_of_the_command_line_breaks_nothing() -> None:
    assert Simulate(desktops=32, tasks=4, seed=1, faults="harsh").run() == 0
