"""Waiting for a picture that stands still."""

from __future__ import annotations

import itertools
import time

import pytest

from envs_node.actors.desktop.quiet import QUIET_MS, QUIET_UNKNOWN_MS, Quiet, quiet_window
from envs_node.actors.desktop.settle import Look, Settling, wait_still


def quiet(quiet_ms: int, cap_ms: int = 3000) -> Quiet:
    return Quiet(quiet_ms=quiet_ms, cap_ms=cap_ms)


def test_a_still_picture_settles_after_the_quiet_window() -> None:
    stillness = wait_still(lambda: "same", lambda: quiet(130))

    assert stillness.settled
    assert stillness.frame == "same"
    assert 130 <= stillness.settle_ms < 400


def test_a_picture_that_never_rests_is_reported_at_the_cap() -> None:
    numbers = itertools.count()

    stillness = wait_still(lambda: str(next(numbers)), lambda: quiet(30, cap_ms=60))

    assert not stillness.settled
    assert stillness.settle_ms >= 60


def test_a_change_starts_the_quiet_window_anew() -> None:
    frames = itertools.chain(["a", "a", "b", "b", "c"], itertools.repeat("c"))

    stillness = wait_still(lambda: next(frames), lambda: quiet(100))

    assert stillness.settled
    assert stillness.frame == "c"
    assert stillness.settle_ms >= 130


def test_the_quiet_window_begins_when_a_change_was_seen_and_not_when_it_was_looked_for() -> None:
    """On a busy host a look may take long, and the change come at its very end."""
    seen_s: list[float] = []
    frames = itertools.chain(["a", "a", "b"], itertools.repeat("b"))

    def digest() -> str:
        frame = next(frames)
        if frame == "b" and not seen_s:
            time.sleep(0.15)
            seen_s.append(time.monotonic())
        return frame

    stillness = wait_still(digest, lambda: quiet(200))

    assert stillness.settled
    assert time.monotonic() - seen_s[0] >= 0.2


def test_an_application_that_comes_up_meanwhile_is_given_its_own_window() -> None:
    frames = itertools.chain(["a"] * 5, itertools.repeat("b"))
    windows = itertools.chain([quiet(100)], itertools.repeat(quiet(200)))

    stillness = wait_still(lambda: next(frames), lambda: next(windows))

    assert stillness.quiet.quiet_ms == 200
    assert stillness.settle_ms >= 230


def at_rest() -> tuple[float, bool]:
    return 0.0, False


@pytest.mark.parametrize("frames", ["abababab", "babababa"])
def test_of_two_pictures_in_turns_the_same_one_counts(frames: str) -> None:
    settling = Settling(0, frames[0], 0)

    counted = set()
    for turn, frame in enumerate(frames):
        settling.see(500 * turn, frame, at_rest)
        if settling.is_still(500 * turn + 150, 650, at_rest):
            counted.add((turn >= 3, settling.frame))

    assert counted == {(True, "a")}


@pytest.mark.parametrize("frames", ["abcabcabc", "abacabac", "aabbccdd"])
def test_pictures_that_do_more_than_take_turns_are_not_at_rest(frames: str) -> None:
    settling = Settling(0, frames[0], 0)

    for turn, frame in enumerate(frames):
        settling.see(300 * turn, frame, at_rest)
        assert not settling.is_still(300 * turn + 150, 650, at_rest)


def test_what_takes_turns_quickly_is_not_taken_to_blink() -> None:
    """A button that is pressed twice shows two pictures in turns, too."""
    settling = Settling(0, "a", 0)

    for turn, frame in enumerate("abab"):
        settling.see(110 * turn, frame, at_rest)

    assert not settling.is_still(110 * 3 + 105, 650, at_rest)


def test_a_look_while_a_picture_blinks_holds_until_something_else_changes() -> None:
    settling, look = Settling(0, "a", 0), Look(lambda: None)
    for turn, frame in enumerate("aba"):
        settling.see(500 * turn, frame, at_rest)
    look.take(settling)

    settling.see(1500, "b", at_rest)
    held = look.is_valid(settling)
    settling.see(2000, "c", at_rest)

    assert (held, look.is_valid(settling)) == (True, False)


def test_the_time_of_a_look_that_stops_its_clocks_does_not_count() -> None:
    look = Look(lambda: time.sleep(0.2))
    look.took_ms = 0.0
    shy = Quiet(quiet_ms=300, is_shy=True)

    stillness = wait_still(lambda: "same", lambda: shy, look=look)

    assert stillness.looked
    assert stillness.settle_ms >= 500


@pytest.mark.parametrize(
    ("classes", "quiet_ms", "asked_by"),
    [
        ([], 100, ""),
        (["mousepad Mousepad"], QUIET_MS["mousepad"], "mousepad"),
        (["mousepad Mousepad", "libreoffice libreoffice-calc"], 650, "libreoffice"),
        (["mousepad Mousepad", "late.py Late.py"], QUIET_UNKNOWN_MS, "late.py Late.py"),
    ],
)
def test_the_slowest_application_says_how_long_to_wait_and_a_stranger_is_slow(
    classes: list[str], quiet_ms: int, asked_by: str
) -> None:
    found = quiet_window(classes)

    assert (found.quiet_ms, found.app_class) == (quiet_ms, asked_by)
    assert found.cap_ms > 3 * quiet_ms


def test_the_server_that_still_waits_to_sleep_after_its_answer_is_not_at_work() -> None:
    """On a busy host it is left runnable for some ms; asking every 8 ms, we saw it so for ever."""
    answered_s = [0.0]

    def digest() -> str:
        answered_s[0] = time.monotonic()
        return "a"

    stillness = wait_still(
        digest, lambda: quiet(100), lambda: (0.0, time.monotonic() - answered_s[0] < 0.004)
    )

    assert stillness.settled
    assert stillness.settle_ms < 1000


def test_a_still_picture_is_not_believed_while_programs_work() -> None:
    used_ms = itertools.count(0, 100)
    window = quiet(20, cap_ms=250)

    working = wait_still(lambda: "a", lambda: window, lambda: (next(used_ms), False))
    waiting = wait_still(lambda: "a", lambda: window, lambda: (0.0, True))

    assert not working.settled
    assert not waiting.settled


def test_a_look_is_taken_within_a_long_quiet_window_and_costs_no_time() -> None:
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        time.sleep(0.1)

    once, never = Look(look), Look(look)

    long = wait_still(lambda: "a", lambda: quiet(450), look=once)
    count = len(looks)
    short = wait_still(lambda: "a", lambda: quiet(150), look=never)

    assert (long.looked, count) == (True, 1)
    assert 450 <= long.settle_ms < 530
    assert (short.looked, len(looks)) == (False, 1)


def test_a_look_before_the_last_change_does_not_count() -> None:
    looks: list[str] = []

    def digest() -> str:
        return "after" if looks else "before"

    once = wait_still(digest, lambda: quiet(300), look=Look(lambda: looks.append("look")))

    assert len(looks) == 2, "the picture changed while it looked, so it looked again"
    assert once.looked
