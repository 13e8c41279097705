"""Hard tasks weigh more, with a mean of one and a cap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.fit.weights import hard_weights

rates = st.lists(st.floats(0, 1), min_size=1, max_size=50)
betas = st.floats(0, 3)


@given(rates, betas)
def test_weights_have_a_mean_of_one_before_the_cap(success_rates: list[float], beta: float) -> None:
    weights = hard_weights(success_rates, beta=beta, weight_max=1e9)

    assert sum(weights) / len(weights) == pytest.approx(1.0)


@given(rates, betas, st.floats(1, 5))
def test_the_cap_comes_last(success_rates: list[float], beta: float, weight_max: float) -> None:
    free = hard_weights(success_rates, beta=beta, weight_max=1e9)
    capped = hard_weights(success_rates, beta=beta, weight_max=weight_max)

    assert capped == tuple(min(weight_max, weight) for weight in free)


@given(rates, betas)
def test_a_harder_task_never_weighs_less(success_rates: list[float], beta: float) -> None:
    weights = hard_weights(sorted(success_rates), beta=beta, weight_max=4.0)

    assert list(weights) == sorted(weights, reverse=True)


def test_half_as_often_solved_weighs_twice_as_much() -> None:
    assert hard_weights([0.0, 0.5], beta=1.0, weight_max=4.0) == pytest.approx((4 / 3, 2 / 3))


def test_where_nothing_is_hard_all_weigh_one() -> None:
    assert hard_weights([1.0, 1.0], beta=2.0, weight_max=4.0) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("rate", "beta", "weight_max"), [(1.5, 1, 4), (-0.1, 1, 4), (0.5, -1, 4), (0.5, 1, 0.5)]
)
def test_nonsense_is_refused(rate: float, beta: float, weight_max: float) -> None:
    with pytest.raises(ValueError, match=r"must be at least|is not between"):
        hard_weights([rate], beta=beta, weight_max=weight_max)
