"""How far two policies are apart, from their log-probabilities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.fit.shift import measure_shift

log_probs = st.lists(st.floats(-50, 0), min_size=1, max_size=30)


@given(log_probs)
def test_a_policy_is_not_shifted_from_itself(old: list[float]) -> None:
    shift = measure_shift(old, old)

    assert shift.log_ratio == 0
    assert shift.effective_sample_size == pytest.approx(1)
    assert shift.ratio_max == 1


@given(st.lists(st.tuples(st.floats(-50, 0), st.floats(-50, 0)), min_size=1, max_size=30))
def test_the_effective_sample_size_is_a_share(pairs: list[tuple[float, float]]) -> None:
    old, new = [a for a, _ in pairs], [b for _, b in pairs]

    size = measure_shift(old, new).effective_sample_size

    assert 1 / len(pairs) - 1e-9 <= size <= 1 + 1e-9


def test_one_ratio_above_all_leaves_one_effective_sample() -> None:
    shift = measure_shift([-40.0, -1.0, -1.0, -1.0], [0.0, -1.0, -1.0, -1.0])

    assert shift.effective_sample_size == pytest.approx(0.25)
    assert shift.log_ratio == pytest.approx(10.0)
    assert shift.ratio_max == pytest.approx(math.exp(40))


@pytest.mark.parametrize(("old", "new"), [([], []), ([-1.0], []), ([-math.inf], [-1.0])])
def test_what_cannot_be_compared_is_refused(old: list[float], new: list[float]) -> None:
    with pytest.raises(ValueError, match=r"cannot be compared|not finite"):
        measure_shift(old, new)
