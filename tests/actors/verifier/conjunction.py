"""How OSWorld joins metrics, written down once more and from its meaning, to be held against it.

The product calls OSWorld's own `evaluate`; this says what that is believed to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Score: TypeAlias = float | None
Find: TypeAlias = Callable[[], Score]
"""Finds what a metric is given; here that is its score, too. May raise."""


def join(finds: Sequence[Find] | Find, conjunction: str, last_action: str) -> Score:
    """Score of a task with one metric, or with several.

    Args:
        finds: one, or as many as there are metrics.
        conjunction: `and` is the mean unless one is 0, `or` the best unless one is 1.
        last_action: whoever gives up has 0 without a look.

    Raises:
        TypeError: a metric of several returned None.
        UnboundLocalError: the first of several `or` found no file, so there is nothing to score.
    """
    if last_action == "FAIL":
        return 0
    if callable(finds):
        try:
            return finds()
        except FileNotFoundError:
            return 0
    decisive, decided = (0.0, 0) if conjunction == "and" else (1.0, 1)
    scores: list[float] = []
    found: list[Score] = []
    for find in finds:
        try:
            found.append(find())
        except FileNotFoundError:
            if conjunction == "and":
                return 0
        if not found:
            raise UnboundLocalError
        latest = found[-1]  # without a file, what was found before is scored once more
        if latest is None:
            raise TypeError
        if latest == decisive:
            return decided
        scores.append(latest)
    return sum(scores) / len(scores) if conjunction == "and" else max(scores)
