"""Finds the tasks of an OSWorld tree as OSWorld lays it out, without changing anything there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from envs_node.policy.tasks import TaskError

_EXAMPLES = "examples"
_PLACES = (Path(_EXAMPLES), Path("evaluation_examples") / _EXAMPLES)
"""Where a checkout, and its folder of tasks, keep them: `<domain>/<id>.json` below."""


def tree_files(path: Path) -> list[Path] | None:
    """The task files of an OSWorld tree, sorted; None when the path is no such tree.

    Args:
        path: a checkout, its `evaluation_examples`, or a list (`test_*.json`) in it, which selects.

    Raises:
        TaskError: a list names a task that is not there.
    """
    if path.is_file():
        chosen = _read_list(path)
        return None if chosen is None else sorted(_find(path, chosen))
    for place in _PLACES:
        files = sorted((path / place).glob("*/*.json"))
        if files:
            return files
    return None


def _read_list(path: Path) -> dict[str, list[str]] | None:
    """The ids by domain of a list; None when the file is something else."""
    try:
        value: Any = msgspec.json.decode(path.read_bytes())
        return msgspec.convert(value, dict[str, list[str]]) if value else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _find(path: Path, chosen: dict[str, list[str]]) -> list[Path]:
    folders = sorted(path.parent.glob(f"{_EXAMPLES}*"))
    found = []
    for domain, ids in chosen.items():
        for name in ids:
            places = [folder / domain / f"{name}.json" for folder in folders]
            file = next((place for place in places if place.is_file()), None)
            if file is None:
                problem = f"{domain}/{name} is in no folder {_EXAMPLES}* beside the list"
                raise TaskError(str(path), domain, problem)
            found.append(file)
    return found
