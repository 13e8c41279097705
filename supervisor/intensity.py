"""How often may children crash, and how long to wait before the next start. Pure."""

from __future__ import annotations

from random import Random

import msgspec


class Intensity(msgspec.Struct, frozen=True, kw_only=True):
    """A burst of restarts within a window, and the back-off between them."""

    burst: int = 5
    """Crashes within the window that are answered by a restart; one more is too many."""
    preempted_burst: int = 50
    """The same for ends that were not the child's fault: they spend nothing of the burst."""
    window_s: float = 30.0
    first_s: float = 0.1
    """Back-off after the first crash."""
    factor: float = 2.0
    longest_s: float = 10.0
    jitter: float = 0.25
    """Share of the back-off drawn by chance, up or down, so that siblings do not march in step."""


def crashes_within(
    crashes: tuple[float, ...], now_s: float, intensity: Intensity
) -> tuple[float, ...]:
    """The crashes that still count at this time."""
    return tuple(at for at in crashes if now_s - at < intensity.window_s)


def is_spent(
    crashes: tuple[float, ...], now_s: float, intensity: Intensity, *, is_preempted: bool = False
) -> bool:
    """Whether these crashes, the newest included, are more than may be answered by a restart."""
    burst = intensity.preempted_burst if is_preempted else intensity.burst
    return len(crashes_within(crashes, now_s, intensity)) > burst


def backoff_s(crash_count: int, intensity: Intensity, chance: Random) -> float:
    """How long to wait after the n-th crash in a row (from 1) before starting again."""
    exponent = min(max(crash_count - 1, 0), 64)
    plain = min(intensity.first_s * intensity.factor**exponent, intensity.longest_s)
    return plain * (1 + intensity.jitter * (2 * chance.random() - 1))
