"""Times calls, and says median, spread and machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path


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


def machine() -> str:
    """Processors, memory and load of this machine, in one line."""
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((x.split(":")[1].strip() for x in cpus.splitlines() if "model name" in x), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} x {model}, {memory} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {load}"
    )
