"""No public task scores a fault: a broken desktop is infra, a slow one is judged as a quick one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SWEEP = ROOT / "benchmarks" / "checker_faults.py"
SAMPLE = ROOT / "tests" / "golden" / "osworld"
SHIPPED = ROOT / "tests" / "osworld"
DECIDED = ("unsupported", "infeasible")
"""Classes that are known before a desktop is looked at."""


def _sweep(*given: str) -> dict[str, dict[str, str]]:
    """Class by task and by fault."""
    done = subprocess.run(
        [sys.executable, str(SWEEP), *given, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found[row["task"]][row["fault"]] = row["verdict"]
    assert done.returncode == 0, "a fault was scored; run the sweep by hand, it names each"
    return found


def _check(found: dict[str, dict[str, str]]) -> None:
    for task, classes in found.items():
        on_nothing = classes.pop("empty")
        assert classes.pop("slow") == on_nothing, task
        wanted = on_nothing if on_nothing in DECIDED else "infra"
        assert set(classes.values()) == {wanted}, f"{task}: {classes}"


@pytest.mark.skipif(os.geteuid() != 0, reason="the sweep's desktops are made by root")
def test_a_sample_of_public_tasks_scores_no_fault():
    found = _sweep(str(SAMPLE), "--desks", "2", "--read-s", "1")

    assert len(found) == 5
    assert [len(classes) for classes in found.values()] == [10] * 5
    _check(found)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the sweep's desktops are made by root")
def test_the_public_tasks_that_are_shipped_score_no_fault():
    found = _sweep(str(SAMPLE), *([str(SHIPPED)] if SHIPPED.is_dir() else []))

    assert len(found) >= 5
    _check(found)
