"""pass@k is what all draws of k say, and intervals hold what they claim to."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.policy.statistics import mean_over_tasks, pass_at_k, wilson


@pytest.mark.parametrize("rollouts", range(1, 8))
def test_pass_at_k_is_the_share_of_draws_that_hold_a_success(rollouts: int) -> None:
    for successes, k in itertools.product(range(rollouts + 1), range(1, rollouts + 1)):
        results = [True] * successes + [False] * (rollouts - successes)
        draws = list(itertools.combinations(results, k))

        expected = sum(any(draw) for draw in draws) / len(draws)

        assert math.isclose(pass_at_k(successes, rollouts, k), expected)


@pytest.mark.parametrize(
    ("successes", "rollouts", "k"), [(0, 3, 4), (0, 3, 0), (4, 3, 1), (-1, 3, 1), (0, 0, 1)]
)
def test_what_has_no_meaning_is_refused_by_its_numbers(
    successes: int, rollouts: int, k: int
) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} of {successes} successes in {rollouts}"):
        pass_at_k(successes, rollouts, k)


@given(st.integers(0, 500), st.integers(1, 500))
def test_wilson_holds_the_share_and_stays_between_0_and_1(successes: int, trials: int) -> None:
    successes = min(successes, trials)

    estimate = wilson(successes, trials)

    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.low < estimate.high
    assert estimate.tasks == trials


def test_wilson_agrees_with_published_values() -> None:
    # Newcombe 1998, table I: 81/263 by the score method without continuity correction.
    estimate = wilson(81, 263)

    assert (round(estimate.low, 4), round(estimate.high, 4)) == (0.2553, 0.3662)


def test_no_trial_says_nothing() -> None:
    estimate = wilson(0, 0)

    assert (estimate.low, estimate.high, estimate.tasks) == (0.0, 1.0, 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_a_mean_over_tasks_lies_in_its_interval_and_repeats(values: list[float]) -> None:
    estimate = mean_over_tasks(values, random.Random(0))

    assert estimate == mean_over_tasks(values, random.Random(0))
    assert min(values) - 1e-9 <= estimate.low <= estimate.high <= max(values) + 1e-9
    assert math.isclose(estimate.value, sum(values) / len(values))


def test_a_mean_over_no_task_says_nothing() -> None:
    estimate = mean_over_tasks([], random.Random(0))

    assert (estimate.low, estimate.high, estimate.tasks) == (0.0, 1.0, 0)
