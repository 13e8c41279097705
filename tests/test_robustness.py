"""The table of faults that users of other systems met: every row is there, every test exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = {
    "A": (1, *range(3, 13)),
    "B": (*range(1, 5), *range(7, 15)),
    "C": (1, *range(3, 12)),
    "D": (*range(1, 6), *range(7, 14), *range(15, 27)),
    "E": (*range(2, 7), *range(8, 21), *range(22, 25)),
    "F": (*range(2, 10), 11),
    "G": (1, 2, 3, *range(5, 15), 16, 17, 18),
    "J": (1, 2, 3, 5),
}
"""The reports about coordinates, typing, pictures, desktops, messages and actors, resuming,
verdicts and security. Other sections are judged with what they are about."""
_LINE = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def _table() -> dict[str, str]:
    text = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    rows = _LINE.findall(text)
    assert len(rows) == len({name for name, _, _ in rows}), "a row stands twice"
    return {name: here for name, _, here in rows}


@cache
def _tests_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_every_report_has_its_row() -> None:
    assert list(_table()) == [f"{part}{number}" for part in ROWS for number in ROWS[part]]


@pytest.mark.parametrize("row", _table())
def test_a_row_names_tests_that_exist_or_says_where_it_is_planned(row: str) -> None:
    here = _table()[row]

    missing = [name for path, name in _TEST.findall(here) if name not in _tests_of(path)]
    assert not missing
    assert here.count("::") == len(_TEST.findall(here)), "a test that is not written as path::name"
    assert _TEST.search(here) or re.search(r"Planned, with \w", here)
