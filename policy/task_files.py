"""Names of a task's own files, wherever its JSON says that they come from."""

from __future__ import annotations

import re
import uuid
from typing import Any, Literal, NamedTuple, TypeAlias

BUNDLE_SCHEME = "bundle://"
"""Where a task's own files are named: `bundle://files/notes.txt`, `bundle://gold/notes.txt`."""
Part: TypeAlias = Literal["files", "gold"]
_ODD = re.compile(r"[^A-Za-z0-9._()+,=@-]")
_BASE_MAX = 80


def stored_name(source: str, part: Part) -> str:
    """Name under which a task keeps what its JSON wants from an address.

    Args:
        source: `bundle://gold/notes.txt`, which keeps its name, or any address.
        part: `files` for what a desktop may see, `gold` for what only the checker may.
    """
    if source.startswith(BUNDLE_SCHEME):
        return source.removeprefix(BUNDLE_SCHEME)
    base = _ODD.sub("_", source.split("?")[0].rstrip("/").rsplit("/", 1)[-1])[-_BASE_MAX:]
    return f"{part}/{uuid.uuid5(uuid.NAMESPACE_URL, source)}_{base}"


class WantedFile(NamedTuple):
    """A file that a task's JSON names by an address of the network."""

    url: str
    part: Part
    """`files` when a desktop gets it, `gold` when the checker alone does."""

    @property
    def name(self) -> str:
        """Under which the task keeps it."""
        return stored_name(self.url, self.part)


def wanted_files(task: Any) -> tuple[WantedFile, ...]:
    """All that a task would download, in the order of its JSON, each once.

    Args:
        task: its JSON as it was decoded; whatever has another shape wants nothing.
    """
    evaluator = _field(task, "evaluator")
    found: list[WantedFile] = []
    for steps in (_field(task, "config"), _field(evaluator, "postconfig")):
        for step in _all(steps):
            if _field(step, "type") == "download":
                for file in _all(_field(_field(step, "parameters"), "files")):
                    found.append(WantedFile(_field(file, "url"), "files"))
    sides: tuple[tuple[str, Part], ...] = (("result", "files"), ("expected", "gold"))
    for side, part in sides:
        for config in _all(_field(evaluator, side)):
            if _field(config, "type") == "cloud_file":
                found += [WantedFile(path, part) for path in _all(_field(config, "path"))]
    return tuple(
        dict.fromkeys(
            file
            for file in found
            if isinstance(file.url, str) and file.url.startswith(("http://", "https://"))
        )
    )


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _all(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
