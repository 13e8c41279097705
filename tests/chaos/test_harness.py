"""The harness itself: it draws the same storm twice, hits whom it means, and sees what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.audit import misjudged
from tests.chaos.overseer import wait_for
from tests.chaos.processes import Process, below, look, send
from tests.chaos.residue import Residue
from tests.chaos.storm import draw

SLEEP = "import time; time.sleep(60)"
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
NOBODY: frozenset[str] = frozenset()


def test_a_seed_draws_the_same_faults_however_many_are_wanted() -> None:
    few = draw(7, "search", 5, lease_s=4, spare=NOBODY)
    many = draw(7, "search", 50, lease_s=4, spare=NOBODY)

    assert many[:5] == few
    assert many != draw(8, "search", 50, lease_s=4, spare=NOBODY)


def test_a_storm_kills_and_freezes_shorter_and_longer_than_a_lease() -> None:
    freezes = [plan.freeze_s for plan in draw(1, "search", 200, lease_s=4, spare=NOBODY)]

    assert freezes.count(0) > 80
    assert min(s for s in freezes if s) < 4 < max(freezes)


def test_who_is_spared_is_never_drawn() -> None:
    plans = draw(1, "fit", 100, lease_s=4, spare=frozenset({"head", "trainer"}))

    assert not {plan.service for plan in plans} & {"head", "trainer"}


def test_a_process_below_ours_is_found_and_hit_and_another_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", SLEEP])
    found = next(process for process in below([os.getpid()]) if process.pid == child.pid)
    earlier = Process(found.pid, found.parent, found.start_ticks - 1, found.state, found.command)

    assert not send(earlier, signal.SIGKILL), "a pid that was given anew"
    assert send(found, signal.SIGKILL)
    assert child.wait(timeout=10) == -signal.SIGKILL
    assert not send(found, signal.SIGKILL)


def test_an_orphan_that_is_left_behind_is_found(tmp_path: Path) -> None:
    with Residue(tmp_path, settle_s=0.2) as residue:
        parent = subprocess.Popen([sys.executable, "-c", ORPHAN])
        parent.wait(timeout=10)

        left = residue.left()

        assert len(left) == 1
        assert left[0].startswith("process")
        orphan = look(int(left[0].split()[1]))
        assert orphan is not None
        assert send(orphan, signal.SIGKILL)
        assert wait_for(lambda: residue.left() == [], 10)


@pytest.mark.parametrize(
    ("calm", "stormy", "count"),
    [("success", "failure", 1), ("failure", "failure", 0), ("failure", "success", 0)],
)
def test_a_path_that_succeeds_and_fails_under_faults_was_misjudged(
    calm: str, stormy: str, count: int
) -> None:
    key = ("task", ("click", "type"))

    assert len(misjudged({key: {calm}}, {key: {stormy}})) == count
