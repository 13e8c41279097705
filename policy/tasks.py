"""Reads OSWorld task JSON strictly: what is read here can be set up and judged, or is refused."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from envs_node.messages.base import TaskId
from envs_node.messages.tasks import Task, TaskFile
from envs_node.policy.task_files import BUNDLE_SCHEME
from envs_node.policy.task_lacks import Lack, find_lacks
from envs_node.policy.task_reader import TaskError, TaskReader, Vocabulary

__all__ = [
    "BUNDLE_SCHEME",
    "Inspection",
    "TaskError",
    "Vocabulary",
    "inspect_task",
    "is_infeasible",
    "postconfig_sleep_s",
    "read_task",
    "task_json",
    "task_lacks",
    "unsupported_reason",
]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SPLITS = ("train", "validation", "held-out")
_INFEASIBLE = "infeasible"
_BY_FIELD = ("credentials", "network", "file")
"""Kinds of lack that are told with their field."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """One task file, looked at from all sides."""

    file: str
    task: Task | None
    """None when it cannot be read."""
    lacks: tuple[Lack, ...]
    """Why it cannot be searched or judged; nothing when it can."""


def read_task(
    data: bytes, files: Mapping[str, bytes], vocabulary: Vocabulary, *, file: str
) -> Task:
    """Make a task of its JSON and its files.

    Args:
        data: the JSON, kept byte for byte.
        files: the task's files by name, `files/…` for the desktop and `gold/…` for the checker.
        vocabulary: what the checker knows.
        file: what errors call the JSON.

    Raises:
        TaskError: a field is missing, of another kind, or names something unknown.
    """
    _check(TaskReader(file, vocabulary, frozenset(files)), data)
    return _made(data, files)


def inspect_task(
    data: bytes, files: Mapping[str, bytes], vocabulary: Vocabulary, *, file: str
) -> Inspection:
    """Look at a task file from all sides and raise nothing; the arguments are `read_task`'s."""
    reader = TaskReader(file, vocabulary, frozenset(files), is_strict=False)
    try:
        _check(reader, data)
    except TaskError as error:
        reader.faults.append(error)
    if reader.faults:
        lacks = tuple(_broken(error) for error in reader.faults)
        return Inspection(file=file, task=None, lacks=lacks)
    task = _made(data, files)
    return Inspection(file=file, task=task, lacks=task_lacks(task, vocabulary))


def task_lacks(task: Task, vocabulary: Vocabulary) -> tuple[Lack, ...]:
    """All that keeps a task that can be read from being searched or judged; the worst first.

    Of these, `web` is a lack only where desktops have no network, as sandboxes have none.
    """
    names = frozenset(file.name for file in task.files)
    return find_lacks(task_json(task), names, vocabulary)


def _broken(error: TaskError) -> Lack:
    return Lack(kind="broken", field=error.field, problem=error.problem)


def _check(reader: TaskReader, data: bytes) -> None:
    task = reader.parse(data)
    for field in ("id", "split", "instruction", "template"):
        reader.attempt(_check_text, reader, task, field)
    reader.attempt(reader.texts, task.get("related_apps") or [], "related_apps")
    reader.attempt(reader.check_steps, task.get("config"), "config")
    reader.attempt(reader.check_evaluator, task)
    reader.attempt(reader.check_files, task)


def _made(data: bytes, files: Mapping[str, bytes]) -> Task:
    """The task of a JSON that was checked."""
    task = msgspec.json.decode(data)
    kept = tuple(
        TaskFile(name=name, sha256=hashlib.sha256(files[name]).hexdigest(), data=files[name])
        for name in sorted(files)
    )
    return Task(
        id=TaskId(str(task.get("id"))),
        instruction=str(task.get("instruction")),
        template=str(task.get("template", task.get("id"))),
        split=str(task.get("split", "held-out")),
        apps=tuple(task.get("related_apps") or []),
        json=data,
        sha256=_digest(data, kept),
        files=kept,
    )


def _check_text(reader: TaskReader, task: dict[str, Any], field: str) -> None:
    defaults = {"split": "held-out", "template": str(task.get("id"))}
    text = reader.text(task, field, defaults.get(field))
    if field == "id" and not _ID.fullmatch(text):
        reader.refuse("id", f"{text!r} is no id: use letters, digits, '.', '_' and '-'")
    if field == "split" and text not in _SPLITS:
        reader.refuse("split", f"{text!r} is none of {', '.join(_SPLITS)}")


def is_infeasible(task: Task) -> bool:
    """Tell whether the right answer to this task is to give up."""
    return bool(task_json(task)["evaluator"]["func"] == _INFEASIBLE)


def task_json(task: Task) -> dict[str, Any]:
    """Decode a task's JSON: a fresh copy at every call, for OSWorld's functions change it."""
    decoded: dict[str, Any] = msgspec.json.decode(task.json)
    return decoded


def postconfig_sleep_s(task: Task) -> float:
    """Seconds that the steps before the check sleep."""
    steps = task_json(task)["evaluator"].get("postconfig") or []
    return float(sum(step["parameters"]["seconds"] for step in steps if step["type"] == "sleep"))


def unsupported_reason(task: Task, vocabulary: Vocabulary) -> str | None:
    """Tell why this checker cannot judge a task that it can read; None when it can.

    What is no fault of the checker's, such as a live page in the set-up, is left to `task_lacks`.
    """
    for lack in task_lacks(task, vocabulary):
        if lack.field.startswith("evaluator") and lack.kind != "web":
            return str(lack) if lack.kind in _BY_FIELD else lack.problem
    return None


def _digest(data: bytes, files: tuple[TaskFile, ...]) -> str:
    digest = hashlib.sha256(hashlib.sha256(data).hexdigest().encode())
    for file in files:
        digest.update(f"\n{file.name}\0{file.sha256}".encode())
    return digest.hexdigest()
