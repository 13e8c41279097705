"""A run's numbers add up, and an eval's rates are those of its rollouts."""

from __future__ import annotations

import math
from pathlib import Path

from envs_node import __version__
from envs_node.deploy.cli.report import as_text
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.summary import (
    Summary,
    read_summary,
    summarise_eval,
    summarise_search,
    with_search,
)
from envs_node.messages.base import TaskId
from envs_node.messages.search import Progress, TaskProgress


def _task(name: str, **numbers: object) -> TaskProgress:
    fields: dict[str, object] = {
        "task_id": TaskId(name),
        "template": name.rpartition("-")[0],
        "split": "train",
        "state": "exhausted",
        **numbers,
    }
    return TaskProgress(**fields)  # type: ignore[arg-type]  # by name


def test_a_search_adds_its_tasks_up_and_names_unsolved_templates() -> None:
    tasks = (
        _task("a-0", state="solved", certified=2, distinct=1, leaves=4, replays=3, new_actions=9),
        _task("a-1", leaves=8, replays=1, replay_mismatches=1, verdicts=(("failure", 8),)),
        _task("b-0", leaves=8, reassigned=2, verdicts=(("failure", 7), ("infra", 1))),
    )

    summary = summarise_search(Progress(tasks=tasks, is_over=True), desktops=2)

    assert (summary.tasks, summary.templates, summary.templates_certified) == (3, 2, 1)
    assert summary.templates_unsolved == ("b",)
    assert (summary.leaves, summary.new_actions, summary.reassigned) == (20, 9, 2)
    assert summary.verdicts == {"failure": 15, "infra": 1}
    assert (summary.replays, summary.replay_mismatches) == (4, 1)
    assert summary.replay_mismatch_rate == 0.25
    assert summary.states == {"exhausted": 2, "solved": 1}


def test_a_search_that_replayed_nothing_has_no_mismatch_rate_to_divide() -> None:
    summary = summarise_search(Progress(tasks=(), is_over=True), desktops=1)

    assert summary.replay_mismatch_rate == 0.0


def test_an_eval_keeps_greedy_and_sampled_rollouts_apart() -> None:
    tasks = (
        _task("a-0", rollouts=((True, True), (False, True), (False, False))),
        _task("b-0", rollouts=((True, False), (False, False), (False, False))),
    )

    summary = summarise_eval(Progress(tasks=tasks, is_over=True), "p", rollouts=2, k=2)

    assert summary.greedy.value == 0.5
    assert math.isclose(summary.pass_1.value, 0.25)
    assert math.isclose(summary.pass_k.value, 0.5)
    assert (summary.pass_1.tasks, summary.k, summary.rollouts) == (2, 2, 2)


def test_a_task_with_too_few_judged_rollouts_is_left_out_of_pass_at_k() -> None:
    tasks = (
        _task("a-0", rollouts=((False, True), (False, True))),
        _task("b-0", rollouts=((False, False),)),
        _task("c-0", rollouts=()),
    )

    summary = summarise_eval(Progress(tasks=tasks, is_over=True), "p", rollouts=2, k=2)

    assert (summary.pass_k.value, summary.pass_k.tasks) == (1.0, 1)
    assert (summary.pass_1.value, summary.pass_1.tasks) == (0.5, 2)
    assert summary.greedy.tasks == 0


def test_a_summary_is_told_in_lines() -> None:
    progress = Progress(
        tasks=(_task("a-0", state="solved", certified=1, distinct=1),), is_over=True
    )
    summary = Summary(
        run="r-1",
        version="0",
        search=summarise_search(progress, 2),
        eval_after=summarise_eval(progress, "p", 4, 4),
        wall_s={"search": 1.5},
    )

    text = as_text(summary)

    assert text.startswith("run r-1 (envs-node 0)")
    assert "distinct" in text


def test_tasks_that_were_lost_are_listed_and_not_averaged_over() -> None:
    whole = ((True, True), (False, True))
    tasks = tuple(
        _task(f"a-{number}", rollouts=whole if number >= 12 else ()) for number in range(500)
    )

    result = summarise_eval(Progress(tasks=tasks, is_over=True), "p", rollouts=1, k=1)
    text = as_text(Summary(run="r", version="1", eval_after=result))

    assert (result.judged, len(result.unjudged)) == (488, 12)
    assert result.greedy.tasks == 488
    assert result.pass_1.value == 1.0
    assert "488/500 tasks" in text
    assert all(f"a-{number} (0 of 2 rollouts)" in text for number in range(12))


def test_tasks_of_a_search_whose_branches_were_given_up_are_listed() -> None:
    tasks = (_task("a-0", lost=1), _task("a-1"))

    found = summarise_search(Progress(tasks=tasks, is_over=True), desktops=1)

    assert found.tasks_lost == ("a-0",)
    assert "given up  in a-0" in as_text(Summary(run="r", version="1", search=found))


def test_what_a_run_did_before_its_search_was_resumed_stays_in_its_summary(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    search = summarise_search(Progress(tasks=(), is_over=True), desktops=1)
    assert read_summary(folder) == Summary(run=tmp_path.name, version=__version__)
    nothing = Progress(tasks=(), is_over=True)
    rates = summarise_eval(nothing, policy="p", rollouts=1, k=1)
    before = Summary(
        run="r", version="1", eval_before=rates, wall_s={"search": 3.0, "fit": 2.0, "all": 5.0}
    )
    write_json(folder.summary, before)

    after = with_search(read_summary(folder), search, 1.04)

    assert (after.eval_before, after.search) == (rates, search)
    assert after.wall_s == {"search": 4.0, "fit": 2.0, "all": 6.0}
