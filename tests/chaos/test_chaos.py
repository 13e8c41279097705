"""Real processes in a storm: the run ends, and its ledger is that of an undisturbed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.experiment import Outcome, Settings, experiment
from tests.chaos.overseer import tails
from tests.chaos.stage import Play, play_for

OTHERS = ("policy", "desktops-a", "desktops-b")


def _is_well(outcome: Outcome, faults: int) -> None:
    story = f"{outcome.text()}\n{tails(Path(outcome.folder) / 'storm')}"
    assert not outcome.findings, story
    assert len(outcome.faults) >= faults, story


@pytest.mark.live
def test_a_search_and_a_fit_in_a_storm_lose_nothing(tmp_path: Path) -> None:
    settings = Settings(seed=98, faults=8, gap_s=4, play=Play(tasks=3, epochs=36))

    outcome = experiment(settings, tmp_path)

    _is_well(outcome, 6)  # on a fast machine the fit may be over before all eight


@pytest.mark.slow
@pytest.mark.live
def test_forty_faults_lose_nothing(tmp_path: Path) -> None:
    settings = Settings(seed=40, faults=40, play=play_for(40))

    outcome = experiment(settings, tmp_path)

    _is_well(outcome, 40)


@pytest.mark.slow
@pytest.mark.live
def test_a_head_that_is_killed_five_times_resumes_each_time(tmp_path: Path) -> None:
    settings = Settings(
        seed=5, faults=5, fit_share=0, kill_share=1, spare=OTHERS, play=play_for(5, tasks=8)
    )

    outcome = experiment(settings, tmp_path)

    _is_well(outcome, 5)
    assert outcome.restarts["head"] == 5, outcome.text()
