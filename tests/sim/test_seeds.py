"""Storms, seed by seed: whatever befalls a run, nothing is lost, doubled or misjudged."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envs_node.deploy.sim.trial import Laboratory
from tests.sim.storms import wrong_in

_REPEAT = "SIM_SEED"
"""Names one seed in the environment, to repeat it alone."""
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    """Remembers what undisturbed runs find."""
    return Laboratory()


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_no_storm_breaks_an_invariant(laboratory: Laboratory, first: int):
    given = os.environ.get(_REPEAT)
    seeds = range(int(given), int(given) + 1) if given else range(first, first + 10)

    wrong = wrong_in(laboratory, seeds)

    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_no_storm_of_three_hundred_breaks_an_invariant():
    """Seeds share nothing, so every core simulates some of them."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        parts = list(threads.map(_simulate, range(31, 331, 30)))

    assert not any(part.returncode for part in parts), "\n".join(
        part.stdout + part.stderr for part in parts if part.returncode
    )


def _simulate(first: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.sim.storms", str(first), str(first + 29)]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
