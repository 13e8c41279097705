"""Finds, in a folder that somebody has copied here, what tasks would download."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from envs_node.deploy.tasks.cache import DamagedFileError, FileCache
from envs_node.policy.task_files import wanted_files

_PARTS_MIN = 2
"""Of an address's path, that a file's own path must share: names alone repeat between tasks."""


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """An address, and the file that was found for it."""

    url: str
    file: Path | None


def find_seeds(task_id: str, task: Any, folder: Path) -> tuple[Seed, ...]:
    """Look up all that a task downloads.

    A folder may be another cache of ours, a copy of the hub's folder or of any part of it
    (`vlc/<id>/in.mp4` for `https://…/vlc/<id>/in.mp4`), or OSWorld's own `cache`.

    Args:
        task_id: the task's.
        task: its JSON as it was decoded.
        folder: where to look.
    """
    names = _cached_names(task)
    other = FileCache(folder)
    return tuple(
        Seed(url=file.url, file=_find(folder, other, file.url, task_id, names.get(file.url, [])))
        for file in wanted_files(task)
    )


def _find(folder: Path, other: FileCache, url: str, task_id: str, names: list[str]) -> Path | None:
    entry = other.find(url)
    if entry is not None:
        try:
            other.get(url)
        except DamagedFileError:
            return None
        return other.blob(entry)
    places = [*_paths(url), *(PurePosixPath(task_id) / name for name in names)]
    return next((path for place in places if _is_file(path := folder / place)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for any file, or a folder that is closed to us
        return False


def _paths(url: str) -> Iterator[PurePosixPath]:
    """Where a copy of a server's folder has what an address gives; the longest path first."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address, so no server has a copy
        return
    for path in (parts.path, unquote(parts.path)):
        whole = [parts.netloc, *(part for part in path.split("/") if part)]
        if ".." in whole or "\0" in path:
            continue
        for start in range(len(whole) - _PARTS_MIN + 1):
            yield PurePosixPath(*whole[start:])


def _cached_names(task: Any) -> dict[str, list[str]]:
    """Under which names OSWorld itself keeps what a task downloads, in the task's own folder."""
    names: dict[str, list[str]] = {}
    evaluator = task["evaluator"]
    for step in [*(task.get("config") or []), *(evaluator.get("postconfig") or [])]:
        if step["type"] == "download":
            for file in step["parameters"]["files"]:
                mark = uuid.uuid5(uuid.NAMESPACE_URL, file["url"])
                name = f"{mark}_{PurePosixPath(file['path']).name}"
                names.setdefault(file["url"], []).append(name)
    is_judged = evaluator["func"] != "infeasible"
    for side in ("expected", "result") if is_judged else ():
        configs = evaluator.get(side)
        for config in configs if isinstance(configs, list) else [configs]:
            if config and config.get("type") == "cloud_file":
                paths, dests = config["path"], config["dest"]
                if isinstance(paths, str):
                    paths, dests = [paths], [dests]
                for url, dest in zip(paths, dests, strict=False):
                    names.setdefault(url, []).append(dest)
    return names
