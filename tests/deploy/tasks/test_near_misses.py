"""On real desktops: a solution with one thing wrong in it, saved all the same, does not pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.tasks.bundle import TEMPLATES, bundled_task, instance_of
from envs_node.deploy.tasks.oracle import NotListedError, perform
from envs_node.deploy.tasks.template import OracleStep, Template
from envs_node.messages.actions import Key, Type

_OFFICE = [
    template
    for template in TEMPLATES
    if template.category in ("calc", "writer", "impress") and not template.is_in_demo
]
_ESCAPE = Key(keys=("escape",))


def _near_miss(solution: tuple[OracleStep, ...]) -> tuple[OracleStep, ...]:
    """The solution with the first text mistyped; without its last click where it types none."""
    steps = list(solution[:-1])  # `Finish` is nothing to be done
    for index, step in enumerate(steps):
        if isinstance(step, Type):
            steps[index] = structs.replace(step, text=_mistyped(step.text))
            return tuple(steps)
    return (*steps[:-2], _ESCAPE, _ESCAPE, steps[-1])


def _mistyped(text: str) -> str:
    if text.startswith("="):
        return f"{text}+1"
    return text[:-1] + ("e" if text[-1] != "e" else "o")


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launched:
        yield launched


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    checker = Checker(read_checker(checker_folder()))
    yield checker
    checker.close()


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("template", _OFFICE, ids=[template.name for template in _OFFICE])
def test_a_near_miss_that_is_saved_does_not_pass(
    template: Template, launcher: Launcher, checker: Checker
) -> None:
    task = bundled_task(template, template.split, 0)
    sandbox = Sandbox(launcher)
    try:
        seen = sandbox.reset(task)
        for step in _near_miss(instance_of(template, 0).oracle):
            try:
                seen = perform(sandbox, step, seen)
            except NotListedError:
                seen = sandbox.act(_ESCAPE)  # a dialog that only what is right brings up

        outcome = checker.verify(task, sandbox.guest_pid, "DONE")
    finally:
        sandbox.close()

    assert (outcome.verdict, outcome.reason) == ("failure", "")
