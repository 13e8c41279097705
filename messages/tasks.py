"""A task as it travels: OSWorld's task JSON word for word, and the files it needs."""

from __future__ import annotations

import msgspec

from envs_node.messages.base import Message, TaskId


class TaskFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a task. Gold files are for the checker alone and never enter a desktop."""

    name: str
    """Relative path inside the task's folder, for example `files/notes.txt` or `gold/notes.txt`."""
    sha256: str
    data: bytes


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task, complete: nothing of it has to be looked up elsewhere."""

    id: TaskId
    instruction: str
    template: str
    """What this is an instance of; an OSWorld task is its own template."""
    split: str
    """`train`, `validation` or `held-out`."""
    apps: tuple[str, ...]
    json: bytes
    """The task file, byte for byte."""
    sha256: str
    """Digest of `json` and of the names and digests of `files`."""
    files: tuple[TaskFile, ...] = ()


class FetchTask(Message, frozen=True, kw_only=True):
    """Send a task in full. Answered by `TaskFetched`, or by `TaskUnknown`."""

    task_id: TaskId


class TaskFetched(Message, frozen=True, kw_only=True):
    """Answers `FetchTask`."""

    task: Task


class TaskUnknown(Message, frozen=True, kw_only=True):
    """Refuses `FetchTask`."""

    task_id: TaskId
    reason: str
