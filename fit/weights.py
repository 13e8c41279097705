"""Hard tasks weigh more."""

from __future__ import annotations

from collections.abc import Sequence

RATE_MAX = 0.9


def hard_weights(
    success_rates: Sequence[float], *, beta: float, weight_max: float
) -> tuple[float, ...]:
    """Weight of each example: (1 - success rate of its task) ** beta, mean 1, then capped.

    A rate counts as `RATE_MAX` at most, so that what always succeeds is not forgotten.

    The cap comes last, so a capped set has a mean below 1. Where no task is harder than
    another, all weigh 1.

    Raises:
        ValueError: a rate is not between 0 and 1, `beta` is negative or `weight_max` below 1.
    """
    if beta < 0 or weight_max < 1:
        raise ValueError(f"beta {beta} must be at least 0 and weight_max {weight_max} at least 1")
    for rate in success_rates:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"success rate {rate} is not between 0 and 1")
    raw = [(1.0 - min(rate, RATE_MAX)) ** beta for rate in success_rates]
    total = sum(raw)
    return tuple(min(weight_max, one * len(raw) / total) for one in raw)
