"""What verbs share: their base, and the checks made before anything is started."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import msgspec

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.setup import check_setup
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder, list_checkers
from envs_node.deploy.checker_origin import CheckerOriginError
from envs_node.deploy.cli.console import tell
from envs_node.deploy.config import DesktopSettings, PolicySettings
from envs_node.deploy.doctor import Needs, check_host
from envs_node.deploy.run_folder import require_writable
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.imported import tree_files
from envs_node.deploy.tasks.load import inspect_tasks, load_tasks
from envs_node.deploy.tasks.needs import judge_needs
from envs_node.deploy.tasks.template import Split
from envs_node.deploy.wishes import check_wishes
from envs_node.messages.base import EnvsError
from envs_node.messages.tasks import Task
from envs_node.policy.backend import Policy
from envs_node.policy.models.load import load_policy
from envs_node.policy.tasks import unsupported_reason

_BUNDLED: tuple[Split, ...] = ("train", "validation", "held-out")


class HostError(EnvsError):
    """This host lacks something that a run needs."""


class TasksError(EnvsError):
    """No task, or one that cannot be judged here."""


class Verb(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all verbs: data from the command line, and `run`."""

    def run(self) -> int:
        """Do it; the exit status."""
        raise NotImplementedError


def find_tasks(source: str, instances: int, seed: int, checker: CheckerSource) -> tuple[Task, ...]:
    """Tasks from a file or folder, or the bundled `train`, `validation` or `held-out` set.

    Raises:
        EnvsError: there are none, or one is broken or cannot be judged here.
    """
    split = next((split for split in _BUNDLED if split == source), None)
    if split is not None and not Path(source).exists():
        try:
            return bundled_tasks(split, instances, seed)
        except ValueError as error:
            raise TasksError(f"{error}; see --instances and --task-seed") from error
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
    inspections = inspect_tasks(path, checker.vocabulary, cache)
    needs = [judge_needs(inspection, cache) for inspection in inspections]
    tasks = tuple(
        inspection.task
        for inspection, item in zip(inspections, needs, strict=True)
        if inspection.task is not None and not item.missing
    )
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
    return tasks


def require_host(folder: Path, desktop: DesktopSettings) -> None:
    """Refuse a host that cannot run such desktops, or keep runs in this folder, made yet or not.

    Args:
        desktop: which desktops; where they are other machines, no programs are needed here.

    Raises:
        EnvsError: naming the first lack and the command that mends it.
    """
    require_writable(folder, "no run can be kept")
    has_machines = desktop.backend != "sandbox"
    needs = Needs(programs={}, memory_bytes=1 << 30) if has_machines else None
    wishes = () if has_machines else check_wishes(desktop)
    for check in (*check_host(folder, needs, is_quick=True), *wishes):
        if check.is_needed and not check.ok:
            raise HostError(f"{check.name}: {check.detail}; {check.mend} (see `envs-node doctor`)")


def require_checker(name: str = "") -> CheckerSource:
    """An installed checker: the one that ships with us, or one of this name.

    Raises:
        EnvsError: it is not installed, or cannot be read.
    """
    if name and not checker_folder(name).is_dir():
        known = ", ".join(row.name for row in list_checkers() if row.name) or "none has a name"
        raise CheckerOriginError(
            f"no checker is called {name!r}; known: {known}; see `envs-node checker install --name`"
        )
    return read_checker(checker_folder(name))


def load_configured(settings: PolicySettings) -> Policy:
    """Load a policy, and give its proposals the threads that are configured.

    Raises:
        PolicyError: the folder holds none.
    """
    import torch  # takes seconds, which most verbs need not spend

    policy = load_policy(settings.path())
    torch.set_num_threads(settings.threads)
    return policy


def run_path(given: Path | None, kind: str) -> Path:
    """Where a run goes: as given, or `runs/<kind>-<time>`."""
    return given or Path("runs") / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"
