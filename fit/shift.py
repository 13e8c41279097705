"""How far the fitted policy moved from the one that searched."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """The distance between two policies on the same (state, action) pairs."""

    log_ratio: float
    """Mean of log p_new - log p_old, in nats; above 0 when the new policy likes the pairs more."""
    effective_sample_size: float
    """(sum w) ** 2 / (n sum w ** 2) of w = p_new / p_old, between 1 / n and 1."""
    ratio_max: float
    """Largest p_new / p_old."""


def measure_shift(old: Sequence[float], new: Sequence[float]) -> Shift:
    """Compare log-probabilities of the same actions, pairwise; all must be finite.

    Raises:
        ValueError: there are none, the numbers differ, or one is not finite.
    """
    if not old or len(old) != len(new):
        raise ValueError(f"{len(old)} old and {len(new)} new log-probabilities cannot be compared")
    if not all(map(math.isfinite, (*old, *new))):
        raise ValueError("a log-probability is not finite: the action cannot be said by both")
    ratios = [after - before for before, after in zip(old, new, strict=True)]
    largest = max(ratios)
    scaled = [math.exp(ratio - largest) for ratio in ratios]  # a common factor leaves the size
    return Shift(
        log_ratio=sum(ratios) / len(ratios),
        effective_sample_size=sum(scaled) ** 2 / (len(scaled) * sum(one * one for one in scaled)),
        ratio_max=math.exp(min(largest, 700.0)),
    )
