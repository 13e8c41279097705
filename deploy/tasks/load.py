"""Reads tasks from disk: one JSON file, or a folder of them with their files beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envs_node.messages.base import WIRE_BYTES_MAX
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import TaskError, Vocabulary, read_task

TASK_BYTES_MAX = WIRE_BYTES_MAX * 3 // 4
"""Of a task with its files: it travels in one message, which needs some room of its own."""
_PARTS = ("files", "gold")


def load_tasks(path: Path, vocabulary: Vocabulary) -> tuple[Task, ...]:
    """Read all tasks at a path, sorted by file.

    A task is `<name>.json`; its files lie in `<name>/files/` and `<name>/gold/`, if it has any.

    Args:
        path: one task file, or a folder, which is searched to its bottom.
        vocabulary: what the checker knows.

    Raises:
        TaskError: nothing there, or a task that cannot be taken. Of several, the first is told in
            full and the rest are counted.
    """
    if not path.exists():
        raise TaskError(str(path), "path", "does not exist; give a task file or a folder of them")
    files = [path] if path.is_file() else sorted(_task_files(path))
    if not files:
        raise TaskError(str(path), "path", "holds no task; tasks are files that end in .json")
    tasks: dict[str, tuple[Path, Task]] = {}
    refused: list[TaskError] = []
    for file in files:
        try:
            task = _load(file, vocabulary)
            if task.id in tasks:
                taken = f"{task.id!r} is taken by {tasks[task.id][0]}: give each task its own"
                raise TaskError(str(file), "id", taken)
            tasks[task.id] = (file, task)
        except TaskError as error:
            refused.append(error)
    if refused:
        first, more = refused[0], len(refused) - 1
        suffix = f" ({more} more of {len(files)} tasks are refused, too)" if more else ""
        raise TaskError(first.file, first.field, first.problem + suffix)
    return tuple(task for _, task in tasks.values())


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
            is_of_task = entry.name in _PARTS and folder.with_name(f"{folder.name}.json").exists()
            if not is_of_task:
                yield from _task_files(entry, (*above, place))
        elif entry.suffix == ".json":
            yield entry


def _load(file: Path, vocabulary: Vocabulary) -> Task:
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
    size_bytes = len(data) + sum(len(content) for content in files.values())
    if size_bytes > TASK_BYTES_MAX:
        problem = f"are {size_bytes} bytes with the task; at most {TASK_BYTES_MAX} can be taken"
        raise TaskError(str(file), "files", problem)
    return read_task(data, files, vocabulary, file=str(file))
