"""Reads tasks from disk: one JSON file, or a folder of them with their files beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from envs_node.deploy.tasks.cache import DamagedFileError, FileCache
from envs_node.deploy.tasks.imported import tree_files
from envs_node.messages.base import WIRE_BYTES_MAX
from envs_node.messages.tasks import Task
from envs_node.policy.task_files import wanted_files
from envs_node.policy.task_lacks import Lack
from envs_node.policy.tasks import Inspection, TaskError, Vocabulary, inspect_task, read_task

TASK_BYTES_MAX = WIRE_BYTES_MAX * 3 // 4
"""Of a task with its files: it travels in one message, which needs some room of its own."""
_PARTS = ("files", "gold")


def load_tasks(
    path: Path, vocabulary: Vocabulary, cache: FileCache | None = None
) -> tuple[Task, ...]:
    """Read all tasks at a path, sorted by file.

    A task is `<name>.json`; its files lie in `<name>/files/` and `<name>/gold/`, if it has any.

    Args:
        path: one task file, a list of an OSWorld tree, or a folder: such a tree, or any other,
            which is searched to its bottom.
        vocabulary: what the checker knows.
        cache: where to look for what tasks download.

    Raises:
        TaskError: nothing there, or a task that cannot be taken. Of several, the first is told in
            full and the rest are counted.
    """
    inspections = inspect_tasks(path, vocabulary, cache, is_shape_only=True)
    refused = [(item.file, item.lacks[0]) for item in inspections if item.lacks]
    if refused:
        (file, first), more = refused[0], len(refused) - 1
        told = f" ({more} more of {len(inspections)} tasks are refused, too)" if more else ""
        raise TaskError(file, first.field, first.problem + told)
    return tuple(item.task for item in inspections if item.task)


def inspect_tasks(
    path: Path,
    vocabulary: Vocabulary,
    cache: FileCache | None = None,
    *,
    is_shape_only: bool = False,
) -> tuple[Inspection, ...]:
    """Look at all tasks at a path, sorted by file; what is wrong with one is told of it alone.

    Args:
        path: as for `load_tasks`.
        vocabulary: what the checker knows.
        cache: where to look for what tasks download.
        is_shape_only: leave out what a task that can be read still lacks.

    Raises:
        TaskError: nothing is there.
    """
    return tuple(inspect_each(path, vocabulary, cache, is_shape_only=is_shape_only))


def inspect_each(
    path: Path,
    vocabulary: Vocabulary,
    cache: FileCache | None = None,
    *,
    is_shape_only: bool = False,
) -> Iterator[Inspection]:
    """The same as `inspect_tasks`, one by one: a tree's files need not fit into memory together."""
    if not path.exists():
        raise TaskError(str(path), "path", "does not exist; give a task file or a folder of them")
    files = tree_files(path)
    if files is None:
        files = [path] if path.is_file() else sorted(_task_files(path))
    if not files:
        raise TaskError(str(path), "path", "holds no task; tasks are files that end in .json")
    taken: dict[str, Path] = {}
    for file in files:
        yield _inspect(file, vocabulary, taken, cache, is_shape_only)


def is_of_a_task(folder: Path) -> bool:
    """Whether a task's own files lie there, which may have any name."""
    return folder.name in _PARTS and Path(f"{folder.parent.absolute()}.json").exists()


def _inspect(
    file: Path,
    vocabulary: Vocabulary,
    taken: dict[str, Path],
    cache: FileCache | None,
    is_shape_only: bool,
) -> Inspection:
    try:
        data, files = _read(file)
        if cache is not None:
            files = _with_cached(file, data, files, cache)
        if is_shape_only:
            task = read_task(data, files, vocabulary, file=str(file))
            found = Inspection(file=str(file), task=task, lacks=())
        else:
            found = inspect_task(data, files, vocabulary, file=str(file))
        if found.task is not None and taken.setdefault(found.task.id, file) != file:
            first = f"{found.task.id!r} is taken by {taken[found.task.id]}: give each task its own"
            raise TaskError(str(file), "id", first)
    except TaskError as error:
        lack = Lack(kind="broken", field=error.field, problem=error.problem)
        return Inspection(file=str(file), task=None, lacks=(lack,))
    return found


def _task_files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Task files below a folder. A link to a folder that it lies in leads round: it is left out."""
    place = folder.resolve()
    if place in above:
        return
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        problem = f"cannot be read ({error.strerror}); give a task file or a folder of them"
        raise TaskError(str(folder), "path", problem) from error
    for entry in entries:
        if entry.is_dir():
            if not is_of_a_task(entry):
                yield from _task_files(entry, (*above, place))
        elif entry.suffix == ".json":
            yield entry


def _read(file: Path) -> tuple[bytes, dict[str, bytes]]:
    if not file.is_file():
        problem = "is no regular file; a task is a JSON file"
        raise TaskError(str(file), "whole file", problem)
    try:
        data = file.read_bytes()
        files = {
            path.relative_to(file.with_suffix("")).as_posix(): path.read_bytes()
            for part in _PARTS
            for path in sorted((file.with_suffix("") / part).rglob("*"))
            if path.is_file()
        }
    except OSError as error:
        problem = f"cannot be read ({error.strerror}); mend its permissions"
        raise TaskError(str(file), "whole file", problem) from error
    _check_size(file, len(data) + sum(len(content) for content in files.values()))
    return data, files


def _with_cached(
    file: Path, data: bytes, files: dict[str, bytes], cache: FileCache
) -> dict[str, bytes]:
    """The files of a task with those that the cache has of what it would download."""
    try:
        wanted = wanted_files(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return files  # the reader says so
    found = [(item.name, entry) for item in wanted if (entry := cache.find(item.url))]
    own_bytes = len(data) + sum(len(content) for content in files.values())
    largest = max((entry for _, entry in found), key=lambda entry: entry.size_bytes, default=None)
    told = f"; the largest is {largest.url} of {largest.size_bytes}" if largest else ""
    _check_size(file, own_bytes + sum(entry.size_bytes for _, entry in found), told)
    try:
        got = {name: cache.get(entry.url) for name, entry in found}
    except DamagedFileError as error:
        raise TaskError(str(file), "files", str(error)) from error
    return files | {name: content for name, content in got.items() if content is not None}


def _check_size(file: Path, size_bytes: int, told: str = "") -> None:
    if size_bytes > TASK_BYTES_MAX:
        problem = f"are {size_bytes} bytes with the task; at most {TASK_BYTES_MAX} can be taken"
        problem += told
        raise TaskError(str(file), "files", problem)
