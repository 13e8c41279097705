"""Row D1: after hundreds of episodes a reset takes no longer, and nothing has grown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def test_hundreds_of_episodes_leave_reset_time_and_memory_as_they_were() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/soak.py", "--episodes", "200", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )

    found = json.loads(done.stdout.splitlines()[-1])
    assert found["worse"] == []
    assert len(found["seen"]) == 200
    assert found["seen"][-1]["ready"] > 100, "most desktops stood ready"
