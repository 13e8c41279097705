"""The drift of a run is added up by application, and names what differed first."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.cli.replay import Replay
from envs_node.deploy.drift_report import AppDrift, Cause, DriftReport, drift_by_app
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.search import BranchCost, LeafReached, ReplayCheck
from tests.deploy.fake_node import FakeNode


def leaf(branch: str, task: str = "note-1", **check: object) -> LeafReached:
    """The report of a branch whose replay compared so."""
    return LeafReached(
        branch_id=BranchId(branch), task_id=TaskId(task), lease=1, kind="explore", reason="finish",
        verdict=None, steps=(), cost=BranchCost(),
        replay=ReplayCheck(**check),  # type: ignore[arg-type]  # fields of it
    )  # fmt: skip


def test_states_and_branches_are_added_up_by_application() -> None:
    leaves = [
        leaf("a", steps=3, equal=2, masked=1),
        leaf("b", "note-2", steps=2, equal=1, diverged_at=1, difference="the working files differ"),
        leaf("c", steps=4, equal=4, forked=3),
        leaf("d"),
        leaf("e", "sheet-1", steps=1, equal=1),
    ]

    apps = drift_by_app(leaves, {"note-1": "mousepad", "note-2": "mousepad"})

    assert apps == (
        AppDrift(
            app="mousepad", branches=3, diverged_branches=1, states=9, equal=7, masked=1,
            diverged=1, forked=3,
            causes=(
                Cause(difference="a step: the working files differ", branches=1, example="b"),
            ),
        ),
        AppDrift(
            app="sheet-1", branches=1, diverged_branches=0, states=1, equal=1, masked=0,
            diverged=0, forked=0,
        ),
    )  # fmt: skip


def test_a_start_that_differs_is_a_cause_of_its_own_and_the_most_frequent_come_first() -> None:
    start = {"steps": 1, "is_start_off": True, "difference": "windows are none"}
    leaves = [leaf("a", steps=1, diverged_at=0, difference="windows are none")]
    leaves += [leaf(name, **start) for name in ("b", "c")]

    (app,) = drift_by_app(leaves, {})

    assert [(cause.difference, cause.branches, cause.example) for cause in app.causes] == [
        ("the start: windows are none", 2, "b"),
        ("a step: windows are none", 1, "a"),
    ]
    assert (app.diverged, app.diverged_branches) == (3, 3)


async def test_a_run_that_replayed_alike_reports_only_equal_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        progress, folder = await node.finish("r-1")

    capsys.readouterr()
    code = Replay(folder=folder.path, drift=True, json=True).run()

    (report,) = msgspec.json.decode(capsys.readouterr().out, type=list[DriftReport])
    states = sum(app.states for app in report.apps)
    assert code == 0
    assert states == sum(task.states_compared for task in progress.tasks) > 0
    assert states == sum(app.equal for app in report.apps)
    assert not report.has_diverged
