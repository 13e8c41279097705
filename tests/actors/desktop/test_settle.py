"""Waiting for a picture that stands still."""

from __future__ import annotations

import itertools

from envs_node.actors.desktop.settle import quiet_window_ms, wait_still


def test_a_still_picture_settles_after_the_quiet_window() -> None:
    stillness = wait_still(lambda: "same", quiet_ms=30)

    assert stillness.settled
    assert stillness.frame == "same"
    assert 30 <= stillness.settle_ms < 400


def test_a_picture_that_never_rests_is_reported_at_the_cap() -> None:
    numbers = itertools.count()

    stillness = wait_still(lambda: str(next(numbers)), quiet_ms=30, cap_ms=60)

    assert not stillness.settled
    assert stillness.settle_ms >= 60


def test_a_change_starts_the_quiet_window_anew() -> None:
    frames = itertools.chain(["a", "a", "b", "b", "c"], itertools.repeat("c"))

    stillness = wait_still(lambda: next(frames), quiet_ms=40)

    assert stillness.settled
    assert stillness.frame == "c"
    assert stillness.settle_ms >= 70


def test_libreoffice_needs_a_longer_quiet_window() -> None:
    assert quiet_window_ms(["mousepad Mousepad"]) == 100
    assert quiet_window_ms(["mousepad Mousepad", "libreoffice libreoffice-calc"]) == 650


def test_a_still_picture_is_not_believed_while_programs_work() -> None:
    used_ms = itertools.count(0, 100)

    working = wait_still(lambda: "a", quiet_ms=20, cap_ms=250, work=lambda: (next(used_ms), False))
    waiting = wait_still(lambda: "a", quiet_ms=20, cap_ms=250, work=lambda: (0.0, True))

    assert not working.settled
    assert not waiting.settled
