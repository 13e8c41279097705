"""Storms, seed by seed: whatever befalls a run, nothing is lost, doubled or misjudged."""

from __future__ import annotations

import os

import pytest

from envs_node.deploy.sim.command import command_of
from envs_node.deploy.sim.trial import Laboratory
from tests.sim.seeds import settings_of

_REPEAT = "SIM_SEED"
"""Names one seed in the environment, to repeat it alone."""


def _fail_of(laboratory: Laboratory, seeds: range) -> list[str]:
    """What is wrong in some seeds; each line says how to repeat it."""
    wrong = []
    for seed in seeds:
        trial = laboratory.attempt(settings_of(seed))
        if trial.wrong:
            wrong += [f"seed {seed}: {words}" for words in trial.wrong]
            wrong.append(f"repeat seed {seed} with {command_of(settings_of(seed))}")
    return wrong


def _seeds(first: int, last: int) -> range:
    given = os.environ.get(_REPEAT)
    return range(int(given), int(given) + 1) if given else range(first, last + 1)


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    """Remembers what undisturbed runs find."""
    return Laboratory()


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_no_storm_breaks_an_invariant(laboratory: Laboratory, first: int):
    wrong = _fail_of(laboratory, _seeds(first, first + 9))

    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(31, 321, 29))
def test_no_storm_of_three_hundred_breaks_an_invariant(laboratory: Laboratory, first: int):
    wrong = _fail_of(laboratory, _seeds(first, first + 28))

    assert not wrong, "\n".join(wrong)
