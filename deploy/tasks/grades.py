"""How difficult the bundled templates are: how often the built-in policy succeeds on each."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from envs_node.messages.base import EnvsError

Grade = Literal["easy", "medium", "hard", "unsolved"]

GRADES = Path(__file__).with_name("grades.json")
"""Of the bundled templates, as measured for this version."""
_EASY, _MEDIUM = 0.5, 0.25


class GradesError(EnvsError):
    """A file of grades that cannot be used."""


class TemplateGrade(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one template."""

    policy: str
    attempts: int
    """Rollouts that were judged."""
    successes: int
    steps: int
    """Actions of the solution, with `finish`."""
    grade: Grade


def grade_of(successes: int, attempts: int) -> Grade:
    """Easy: at least half of the attempts succeed; medium: a quarter; hard: any; else unsolved."""
    if not 0 <= successes <= attempts or not attempts:
        raise ValueError(f"{successes} of {attempts} attempts succeeded: that cannot be")
    share = successes / attempts
    if share >= _EASY:
        return "easy"
    if share >= _MEDIUM:
        return "medium"
    return "hard" if successes else "unsolved"


def measured(
    policy: str, steps: int, rollouts: Sequence[tuple[bool, bool]]
) -> TemplateGrade | None:
    """The grade that rollouts earn, each (is greedy, succeeded); None when none was judged."""
    if not rollouts:
        return None
    successes = sum(is_success for _, is_success in rollouts)
    return TemplateGrade(
        policy=policy,
        attempts=len(rollouts),
        successes=successes,
        steps=steps,
        grade=grade_of(successes, len(rollouts)),
    )


def read_grades(path: Path = GRADES) -> dict[str, TemplateGrade]:
    """Grades by template; none where there is no such file.

    Raises:
        GradesError: it holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, TemplateGrade])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise GradesError(f"{path} holds no grades: {error}") from error


def add_grades(path: Path, grades: dict[str, TemplateGrade]) -> dict[str, TemplateGrade]:
    """Add grades to a file, or take their place; others may do so at the same time.

    The file is sorted by template, and written as a whole or not at all.

    Returns:
        What it holds now.

    Raises:
        GradesError: it cannot be written, or holds something else.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            known = dict(sorted((read_grades(path) | grades).items()))
            written = path.with_name(f"{path.name}.new")
            written.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
            written.replace(path)
        finally:
            os.close(folder)
    except OSError as error:
        raise GradesError(f"{path} cannot be written: {error.strerror}") from error
    return known
