"""Where the tasks of a verb come from: a file, a folder, an OSWorld tree, or the bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.setup import check_setup
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.cli.console import tell
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.imported import tree_files
from envs_node.deploy.tasks.load import inspect_each, inspect_tasks, load_tasks
from envs_node.deploy.tasks.needs import TaskNeeds, judge_needs, missing_applications
from envs_node.deploy.tasks.quarantine import (
    QUARANTINE,
    Quarantined,
    quarantine_of,
    read_quarantine,
)
from envs_node.deploy.tasks.template import Split
from envs_node.messages.base import EnvsError
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import is_infeasible, unsupported_reason

_BUNDLED: tuple[Split, ...] = ("train", "validation", "held-out")


class TasksError(EnvsError):
    """No task, or one that cannot be judged here."""


def find_tasks(
    source: str, instances: int, seed: int, checker: CheckerSource, *, quarantined: bool = False
) -> tuple[Task, ...]:
    """Tasks from a file or folder, or the bundled `train`, `validation` or `held-out` set.

    Bundled tasks whose applications are not installed are left out, and told with the packages.

    Args:
        quarantined: take those, too, that the admission gate keeps out; else they are told.

    Raises:
        EnvsError: there are none, or one is broken or cannot be judged here.
    """
    if is_bundled(source):
        tasks = _with_applications(_bundled(source, instances, seed), source)
    else:
        tasks = _read_tasks(source, checker)
    if quarantined:
        return tasks
    folder = admission_folder(source)
    is_ours = is_bundled(source)
    out = read_quarantine(folder / QUARANTINE) if is_ours else quarantine_of(folder)
    return _without(tasks, out, source)


def without_infeasible(tasks: tuple[Task, ...], source: str) -> tuple[Task, ...]:
    """Those that can be done; the others are counted: there is no path to find for them.

    Raises:
        TasksError: none can.
    """
    kept = tuple(task for task in tasks if not is_infeasible(task))
    left = len(tasks) - len(kept)
    if not kept:
        raise TasksError(
            f"the right answer to all {left} tasks of {source} is to give up, and there is nothing "
            "to search: give --infeasible to search them all the same"
        )
    if left:
        tell(f"left out as infeasible: {left} tasks of {source}; --infeasible takes them, too")
    return kept


def read_all_tasks(
    source: str, instances: int, seed: int, checker: CheckerSource
) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """All tasks of a source that can be read, fit to run or not, and why others cannot be read.

    Raises:
        EnvsError: there is no such source.
    """
    if is_bundled(source):
        return _bundled(source, instances, seed), ()
    inspections = inspect_tasks(Path(source), checker.vocabulary, FileCache())
    lacks = tuple(f"{item.file}: {item.lacks[0]}" for item in inspections if item.task is None)
    return tuple(item.task for item in inspections if item.task is not None), lacks


def is_bundled(source: str) -> bool:
    """Whether this names a bundled set; a folder of that name would come first."""
    return source in _BUNDLED and not Path(source).exists()


def _bundled(source: str, instances: int, seed: int) -> tuple[Task, ...]:
    split = next(split for split in _BUNDLED if split == source)
    try:
        return bundled_tasks(split, instances, seed)
    except ValueError as error:
        raise TasksError(f"{error}; see --instances and --task-seed") from error


def _with_applications(tasks: tuple[Task, ...], source: str) -> tuple[Task, ...]:
    """Those whose applications are here; the others are counted, with what brings them.

    Raises:
        TasksError: none is.
    """
    lacking: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        if missing := missing_applications(task):
            lacking[task.id] = tuple(item.way_out for item in missing)
    kept = tuple(task for task in tasks if task.id not in lacking)
    mend = " and ".join(dict.fromkeys(way for ways in lacking.values() for way in ways))
    if lacking and not kept:
        raise TasksError(f"no application of the {source} tasks is installed: {mend}")
    if lacking:
        tell(
            f"left out, for their applications are not installed: {len(lacking)} of {len(tasks)} "
            f"{source} tasks; {mend}"
        )
    return kept


def admission_folder(source: str) -> Path:
    """Where the gate's lists lie: beside the tasks, and of bundled ones where one works."""
    if is_bundled(source):
        return Path(f"admission-{source}")
    return Path(source) if Path(source).is_dir() else Path(source).parent


def _without(
    tasks: tuple[Task, ...], out: Mapping[str, Quarantined], source: str
) -> tuple[Task, ...]:
    """Those that are not in quarantine; the others are told.

    Raises:
        TasksError: all are.
    """
    kept = tuple(task for task in tasks if task.sha256 not in out)
    reasons = [f"{task.id} ({out[task.sha256].reason})" for task in tasks if task.sha256 in out]
    way_out = "mend them and run `envs-node tasks admit` again, or give --quarantined"
    if not kept:
        raise TasksError(f"all tasks of {source} are quarantined: {reasons[0]}; {way_out}")
    if reasons:
        more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        tell(f"left out as quarantined: {reasons[0]}{more}; {way_out}")
    return kept


def _read_tasks(source: str, checker: CheckerSource) -> tuple[Task, ...]:
    path = Path(source)
    if not path.exists():
        raise TasksError(
            f"no such tasks: {source}; give a file, a folder, or one of {', '.join(_BUNDLED)}"
        )
    if tree_files(path) is not None:
        return _tree_tasks(path, checker)
    tasks = load_tasks(path, checker.vocabulary, FileCache())
    if not tasks:
        raise TasksError(f"{source} holds no task: tasks are OSWorld JSON files, <id>.json")
    for task in tasks:
        reason = unsupported_reason(task, checker.vocabulary)
        if reason:
            raise TasksError(f"{task.id} cannot be judged here: {reason}; leave it out")
        try:
            check_setup(task)
        except SetupFailedError as error:
            raise TasksError(f"{task.id} cannot be set up here: {error}; leave it out") from error
    return tasks


def _tree_tasks(path: Path, checker: CheckerSource) -> tuple[Task, ...]:
    """Those of an OSWorld tree that can run here; the others are counted, and do not hinder them.

    Raises:
        EnvsError: there are none.
    """
    cache = FileCache()
    needs: list[TaskNeeds] = []
    tasks: list[Task] = []
    for inspection in inspect_each(path, checker.vocabulary, cache):
        needs.append(judge_needs(inspection, cache))
        if inspection.task is not None and not needs[-1].missing:
            tasks.append(inspection.task)
    left = Counter(item.status for item in needs if item.missing)
    counts = ", ".join(f"{count} {status}" for status, count in left.most_common())
    if not tasks:
        raise TasksError(
            f"none of the {len(needs)} tasks of {path} can run here ({counts}): "
            f"`envs-node tasks check {path}` says why"
        )
    if left:
        tell(
            f"{len(tasks)} of {len(needs)} tasks of {path} can run here; left out are {counts}: "
            f"`envs-node tasks check {path}` says why"
        )
    return tuple(tasks)
