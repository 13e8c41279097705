"""On real desktops, by OSWorld's checker: the solution of a bundled task passes, less does not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.tasks.bundle import (
    INSTANCES_MAX,
    TEMPLATES,
    VOCABULARY,
    bundled_task,
    instance_of,
)
from envs_node.deploy.tasks.oracle import perform
from envs_node.deploy.tasks.template import Split, Template
from envs_node.messages.verify import Verdict

DESKTOPS = 2
OUTCOME_TIMEOUT_S = 600

Case = tuple[Template, int]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the checker said of one task."""

    untouched: Verdict
    unfinished: Verdict
    """After all steps but the last before `Finish`, which often saves."""
    solved: Verdict


def _cases() -> Iterator[object]:
    """Two instances a template, and a held-out one of what is trained on.

    Not slow are one of each template of the demo, and of the first other of each category.
    """
    firsts = {one.category: one.name for one in reversed(TEMPLATES) if not one.is_in_demo}
    for template in TEMPLATES:
        is_quick = template.is_in_demo or template.name in firsts.values()
        numbers = {
            "train": (0, 1, INSTANCES_MAX),
            "validation": (0, 1),
            "held-out": (INSTANCES_MAX, INSTANCES_MAX + 1),
        }[template.split]
        for number in numbers:
            marks = [] if is_quick and number == numbers[0] else [pytest.mark.slow]
            yield pytest.param((template, number), id=f"{template.name}-{number:03d}", marks=marks)


def _split_of(template: Template, number: int) -> Split:
    if template.split == "train" and number >= INSTANCES_MAX:
        return "held-out"
    return template.split


def _play(sandbox: Sandbox, checker: Checker, case: Case) -> Outcome:
    template, number = case
    task = bundled_task(template, _split_of(template, number), number)
    *steps, last, _finish = instance_of(template, number).oracle
    sandbox.reset(task)
    untouched = checker.verify(task, sandbox.guest_pid, "DONE")
    seen = sandbox.reset(task)
    for step in steps:
        seen = perform(sandbox, step, seen)
    unfinished = checker.verify(task, sandbox.guest_pid, "DONE")
    if "postconfig" in instance_of(template, number).evaluator:  # which has ended the application
        seen = sandbox.reset(task)
        for step in steps:
            seen = perform(sandbox, step, seen)
    perform(sandbox, last, seen)
    solved = checker.verify(task, sandbox.guest_pid, "DONE")
    return Outcome(untouched=untouched, unfinished=unfinished, solved=solved)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """The outcomes of all chosen cases, played on several desktops at once."""
    chosen = [item for item in request.session.items if item.path == request.path]
    checker = Checker(read_checker(checker_folder()))

    def play(case: Case) -> Outcome:
        sandbox = Sandbox(launcher)
        try:
            return _play(sandbox, checker, case)
        finally:
            sandbox.close()

    with Launcher() as launcher, ThreadPoolExecutor(DESKTOPS) as pool:
        try:
            cases = [item.callspec.params["case"] for item in chosen if hasattr(item, "callspec")]
            yield {f"{case[0].name}-{case[1]}": pool.submit(play, case) for case in cases}
        finally:
            pool.shutdown(cancel_futures=True)
            checker.close()


@pytest.mark.live
@pytest.mark.parametrize("case", tuple(_cases()))
def test_only_the_whole_solution_passes(case: Case, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[f"{case[0].name}-{case[1]}"].result(OUTCOME_TIMEOUT_S)

    assert (outcome.untouched.verdict, outcome.untouched.reason) == ("failure", "")
    assert outcome.unfinished.verdict == "failure"
    assert (outcome.solved.verdict, outcome.solved.score) == ("success", 1.0)


@pytest.mark.live
def test_the_installed_checker_knows_all_that_the_bundle_uses() -> None:
    known = read_checker(checker_folder()).vocabulary

    assert known.metrics >= VOCABULARY.metrics
    assert known.getters >= VOCABULARY.getters
    assert known.setup_types >= VOCABULARY.setup_types
    used = {f"metric:{name}" for name in VOCABULARY.metrics}
    assert not used & known.unsupported.keys()
