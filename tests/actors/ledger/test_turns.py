"""Pictures take their turn, and leave the ledger time for more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.ledger.turns import Turns


def test_who_comes_to_a_free_ledger_does_not_wait():
    turns = Turns(10.0)

    assert turns.give(3, 100.0) == 0.0
    assert turns.give(3, 200.0) == 0.0


def test_each_waits_for_the_pictures_of_those_before():
    turns = Turns(10.0)
    waits_s = [turns.give(3, 100.0) for _ in range(4)]

    assert waits_s == sorted(set(waits_s))
    assert waits_s[3] > 9 * 0.005


def test_who_would_wait_too_long_takes_nobody_elses_turn():
    turns = Turns(1.0)
    while turns.give(10, 0.0) <= 1.0:
        pass
    wait_s = turns.give(10, 0.0)

    assert turns.give(10, 0.0) == wait_s
    assert turns.give(10, wait_s) == 0.0


def test_a_slow_disk_makes_the_waits_longer_until_it_is_quick_again():
    turns = Turns(10.0)
    waits_s = []
    for number, spent_s in enumerate((3600.0, 0.001)):
        now_s = 1000.0 * number
        for _ in range(100):
            turns.took(spent_s)
        turns.give(1, now_s)
        waits_s.append(turns.give(1, now_s))

    assert 1.0 < waits_s[0] < 2.0
    assert waits_s[1] < 0.01


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0.0, 1.0)), max_size=50))
def test_no_more_than_their_share_of_the_time_is_given(asks: list[tuple[int, float]]):
    turns, now_s, granted = Turns(10.0), 0.0, 0
    for pictures, later_s in asks:
        now_s += later_s
        wait_s = turns.give(pictures, now_s)
        assert wait_s >= 0
        if wait_s <= 10.0:
            assert (granted * 0.005) / 0.75 <= now_s + wait_s + 1e-6
            granted += pictures
