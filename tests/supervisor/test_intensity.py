"""Restart intensity: pure, so proved for any history."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from envs_node.supervisor.intensity import Intensity, backoff_s, crashes_within, is_spent

times = st.lists(st.floats(0, 1e6), max_size=30).map(lambda at: tuple(sorted(at)))
intensities = st.builds(
    Intensity,
    burst=st.integers(0, 10),
    window_s=st.floats(0.1, 1e4),
    first_s=st.floats(0, 10),
    factor=st.floats(1, 5),
    longest_s=st.floats(0, 1e4),
    jitter=st.floats(0, 1),
)


@given(times, intensities)
def test_it_is_spent_when_more_than_the_burst_fell_within_the_window(
    crashes: tuple[float, ...], intensity: Intensity
) -> None:
    now_s = crashes[-1] if crashes else 0.0

    expected = sum(now_s - at < intensity.window_s for at in crashes) > intensity.burst

    assert is_spent(crashes, now_s, intensity) is expected


@given(times, intensities, st.floats(0, 1e6))
def test_forgetting_old_crashes_changes_no_decision(
    crashes: tuple[float, ...], intensity: Intensity, later_s: float
) -> None:
    now_s = crashes[-1] if crashes else 0.0
    kept = crashes_within(crashes, now_s, intensity)

    after_s = now_s + later_s

    assert is_spent(kept, after_s, intensity) is is_spent(crashes, after_s, intensity)


@given(st.integers(1, 10_000), intensities, st.integers())
def test_backoff_stays_within_its_cap_and_its_jitter(
    count: int, intensity: Intensity, seed: int
) -> None:
    delay_s = backoff_s(count, intensity, Random(seed))

    assert 0 <= delay_s <= intensity.longest_s * (1 + intensity.jitter)
    assert delay_s == backoff_s(count, intensity, Random(seed))


def test_backoff_doubles_up_to_its_cap() -> None:
    plain = Intensity(first_s=1, factor=2, longest_s=5, jitter=0)

    delays = [backoff_s(count, plain, Random(0)) for count in range(1, 6)]

    assert delays == [1, 2, 4, 5, 5]
