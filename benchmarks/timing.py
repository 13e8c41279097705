"""Times calls, and says median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def measure_ms(work: Callable[[], object], rounds: int) -> list[float]:
    """Time each of some calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return times


def describe(name: str, times_ms: list[float]) -> str:
    """Median and spread of some times."""
    tenth, *_, ninth = statistics.quantiles(times_ms, n=10)
    median = statistics.median(times_ms)
    return f"{name:28s} median {median:8.3f} ms   p10-p90 {tenth:.3f}-{ninth:.3f} ms"
