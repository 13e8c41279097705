"""Grades of templates: thresholds, the file they are kept in, and what is measured anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.deploy.tasks.bundle import TEMPLATES
from envs_node.deploy.tasks.grades import (
    GradesError,
    add_grades,
    grade_of,
    measured,
    read_grades,
)


@pytest.mark.parametrize(
    ("successes", "grade"),
    [(0, "unsolved"), (1, "hard"), (2, "medium"), (3, "easy"), (5, "easy")],
)
def test_a_grade_is_the_share_of_five_rollouts_that_succeed(successes: int, grade: str) -> None:
    assert grade_of(successes, 5) == grade


@pytest.mark.parametrize(("successes", "attempts"), [(0, 0), (3, 2), (-1, 2)])
def test_impossible_counts_get_no_grade(successes: int, attempts: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        grade_of(successes, attempts)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_a_template_is_solved_if_and_only_if_a_rollout_succeeded(
    rollouts: list[tuple[bool, bool]],
) -> None:
    found = measured("base", 4, rollouts)

    assert found is not None
    assert found.attempts == len(rollouts)
    assert (found.grade == "unsolved") == (not any(success for _, success in rollouts))


def test_what_was_never_judged_has_no_grade() -> None:
    assert measured("base", 4, ()) is None


def test_grades_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = measured("base", 4, [(True, True)])
    assert found is not None
    grades = {"b": found, "a": found}

    add_grades(tmp_path / "grades.json", grades)

    assert read_grades(tmp_path / "grades.json") == grades
    assert [path.name for path in tmp_path.iterdir()] == ["grades.json"]


def test_grades_that_several_add_at_once_are_all_kept(tmp_path: Path) -> None:
    found = measured("base", 4, [(True, True)])
    assert found is not None
    path = tmp_path / "grades.json"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_grades(path, {f"t{number}": found}), range(40)))

    assert len(read_grades(path)) == 40


def test_no_file_means_no_grades_and_a_broken_one_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "grades.json"
    broken.write_text('{"a": 1}')

    assert read_grades(tmp_path / "absent.json") == {}
    with pytest.raises(GradesError, match="holds no grades"):
        read_grades(broken)
    with pytest.raises(GradesError, match="cannot be written"):
        add_grades(tmp_path / "no" / "grades.json", {})


def test_only_bundled_templates_are_graded() -> None:
    assert read_grades().keys() <= {template.name for template in TEMPLATES}
