"""pass@1, pass@k and their intervals, from rollouts that did or did not succeed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec

_Z = 1.959964
_RESAMPLES = 2000


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate with its 95 % interval."""

    value: float
    low: float
    high: float
    tasks: int


def pass_at_k(successes: int, rollouts: int, k: int) -> float:
    """The unbiased estimate of the chance that one of `k` rollouts succeeds.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1.

    Raises:
        ValueError: fewer rollouts than `k`, or more successes than rollouts.
    """
    if not 0 <= successes <= rollouts or not 1 <= k <= rollouts:
        raise ValueError(f"pass@{k} of {successes} successes in {rollouts} rollouts has no meaning")
    return 1.0 - math.comb(rollouts - successes, k) / math.comb(rollouts, k)


def wilson(successes: int, trials: int) -> Estimate:
    """A share with Wilson's 95 % interval; 0 to 1 when there was no trial."""
    if trials == 0:
        return Estimate(value=0.0, low=0.0, high=1.0, tasks=0)
    share = successes / trials
    scale = 1 + _Z**2 / trials
    middle = (share + _Z**2 / (2 * trials)) / scale
    half = _Z * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2)) / scale
    low, high = max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
    return Estimate(value=share, low=low, high=high, tasks=trials)


def mean_over_tasks(values: Sequence[float], chance: random.Random) -> Estimate:
    """A mean over tasks with the 95 % interval of a bootstrap over tasks."""
    if not values:
        return Estimate(value=0.0, low=0.0, high=1.0, tasks=0)
    count = len(values)
    means = sorted(sum(chance.choices(values, k=count)) / count for _ in range(_RESAMPLES))
    return Estimate(
        value=sum(values) / count,
        low=means[int(0.025 * _RESAMPLES)],
        high=means[int(0.975 * _RESAMPLES) - 1],
        tasks=count,
    )
