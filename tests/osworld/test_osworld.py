"""Unmodified OSWorld tasks on real desktops, by OSWorld's checker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.tasks.cache import FileCache
from tests.osworld.cases import CASES
from tests.osworld.playing import TASKS, Case, play, read_case

LIGHT = ("os-bedcedc4", "os-23393935", "os-6f56bf42", "vlc-a5bbbcd5")
"""What is played whenever tests run: a few cheap ones."""


@pytest.fixture(scope="module")
def source() -> CheckerSource:
    """The installed checker."""
    return read_checker(checker_folder())


@pytest.fixture(scope="module")
def checker(source: CheckerSource) -> Iterator[Checker]:
    """One for all."""
    checker = Checker(source)
    yield checker
    checker.close()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One desktop after the other."""
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        yield sandbox
        sandbox.close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> FileCache:
    """Of task files; empty at first."""
    return FileCache(tmp_path_factory.mktemp("task-files"))


@pytest.mark.live
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in LIGHT else pytest.mark.slow)
        for case in CASES
    ],
)
def test_only_a_task_whose_work_is_done_passes(
    case: Case, source: CheckerSource, cache: FileCache, sandbox: Sandbox, checker: Checker
):
    task = read_case(case, source.vocabulary, cache)

    outcome = play(case, task, sandbox, checker)

    assert outcome.untouched.verdict == "failure"
    assert outcome.untouched.score is None or outcome.untouched.score < 1
    assert (outcome.solved.verdict, outcome.solved.score) == ("success", 1.0), outcome.solved


def test_the_task_files_are_those_of_osworld_byte_for_byte():
    listed = dict(
        reversed(line.split("  ")) for line in (TASKS / "SHA256SUMS").read_text().splitlines()
    )

    found = {
        path.relative_to(TASKS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in TASKS.glob("*/*.json")
    }

    assert found == listed
    assert {TASKS / name for name in found} == {case.file for case in CASES}


def test_at_least_forty_tasks_of_eight_domains_are_played():
    assert len({case.id for case in CASES}) >= 40
    assert len({case.domain for case in CASES}) >= 8
