"""What must hold after every simulation, whatever befell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.run_folder import RunFolder
from envs_node.deploy.sim.simulation import RUN, Outcome
from envs_node.deploy.sim.watch import TaskRecord
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import LeafReached, TaskProgress
from envs_node.policy.certify import trajectory_id
from envs_node.policy.fingerprint import canonical_path

Found = frozenset[tuple[str, tuple[str, ...], bool]]
"""Task, canonical path and whether it was certified, of everything in a ledger."""

INVARIANTS = (
    "no lease held by two",
    "no branch lost",
    "no success lost or doubled",
    "budgets kept",
    "every request answered or timed out",
    "no child leaked",
    "no fault scored as a failure",
    "ledger equal to the undisturbed run's",
)


def read_ledger(root: Path) -> tuple[Trajectory, ...]:
    """Everything that a simulated run kept."""
    folder = RunFolder.open(root / RUN)
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        return store.trajectories(certified_only=False)


def found_in(trajectories: tuple[Trajectory, ...]) -> Found:
    """What a ledger holds, without who found it when."""
    return frozenset((t.task_id, t.path, t.is_certified) for t in trajectories)


def check(
    outcome: Outcome, trajectories: tuple[Trajectory, ...], expected: Found | None = None
) -> list[str]:
    """Everything that is wrong; nothing, if all invariants hold.

    Args:
        expected: what the undisturbed run of the same world found, where budgets do not bind.
    """
    wrong = [*outcome.watch.violations, *outcome.leaked]
    progress = outcome.progress
    if progress is None:
        limit_s = outcome.settings.time_max_s
        return [*wrong, f"the run did not end within {limit_s:g} s of virtual time"]
    for task in progress.tasks:
        wrong += _check_task(outcome, task, outcome.watch.tasks[task.task_id])
    wrong += _check_ledger(outcome, trajectories)
    if expected is not None:
        found = found_in(trajectories)
        wrong += [f"lost against the undisturbed run: {key}" for key in sorted(expected - found)]
        wrong += [f"not in the undisturbed run: {key}" for key in sorted(found - expected)]
    return wrong


def _check_task(outcome: Outcome, task: TaskProgress, record: TaskRecord) -> Iterator[str]:
    search = outcome.settings.search
    name = task.task_id
    if task.lost:
        yield f"{name}: {task.lost} branches were given up"
    if task.state in ("waiting", "running"):
        yield f"{name}: the run is over and the task is {task.state}"
    if task.state == "refused":
        yield f"{name}: refused, {task.detail}"
    if task.leaves > search.leaves_task_max:
        yield f"{name}: {task.leaves} leaves, and {search.leaves_task_max} may be spent"
    for verdict in ("success", "failure"):
        counted = dict(task.verdicts).get(verdict, 0)
        seen = sum(1 for leaf in record.accepted.values() if _verdict(leaf) == verdict)
        if counted != seen:
            yield f"{name}: {counted} verdicts of {verdict} are counted, {seen} were reported"
    if task.leaves != record.leaves():
        yield f"{name}: {task.leaves} leaves are counted, {record.leaves()} were reported"
    if task.verified != record.leaves("success"):
        yield f"{name}: {task.verified} successes counted, {record.leaves('success')} reported"
    if not _may_end_early(task, outcome):
        for branch_id, held in record.held.items():
            yield f"{branch_id} was lent to {held.holder} and never came back"


def _check_ledger(outcome: Outcome, trajectories: tuple[Trajectory, ...]) -> Iterator[str]:
    watch = outcome.watch
    kept = {trajectory.id: trajectory for trajectory in trajectories}
    paths = Counter((trajectory.task_id, trajectory.path) for trajectory in trajectories)
    yield from (
        f"doubled: {key} is kept {count} times" for key, count in paths.items() if count > 1
    )
    reproduced: Counter[str] = Counter()
    strayed: set[str] = set()
    for record in watch.tasks.values():
        for leaf in record.accepted.values():
            if leaf.kind == "certify":
                name = trajectory_id(record.task.sha256, _path(leaf))
                reproduced[name] += _verdict(leaf) == "success"
                if _verdict(leaf) == "failure":
                    strayed.add(name)
    wanted = outcome.settings.search.certify_replays
    for name, count in reproduced.items():
        is_kept = name in kept and kept[name].is_certified
        is_in_a_row = wanted == 1 or name not in strayed
        if count >= wanted and is_in_a_row and not is_kept:
            yield f"lost: the success {name}, reproduced {count} times, is not in the ledger"
    for trajectory in trajectories:
        if watch.true_verdict(watch.tasks[trajectory.task_id], trajectory.steps) != "success":
            yield f"{trajectory.id} of {trajectory.task_id} is in the ledger, and is a failure"
        if trajectory.is_certified and reproduced[trajectory.id] < wanted:
            count = reproduced[trajectory.id]
            yield f"{trajectory.id} of {trajectory.task_id} is certified after {count} replays"
    distinct = Counter(t.task_id for t in trajectories if t.is_certified)
    for task in outcome.progress.tasks if outcome.progress is not None else ():
        if task.distinct != distinct[task.task_id]:
            counted, held = task.distinct, distinct[task.task_id]
            yield f"{task.task_id}: {counted} distinct successes counted, {held} in the ledger"


def _may_end_early(task: TaskProgress, outcome: Outcome) -> bool:
    """Whether a limit ended the task, and branches may have been under way."""
    search = outcome.settings.search
    return (
        task.distinct >= search.successes_task_max
        or task.leaves >= search.leaves_task_max
        or task.replayed_actions + task.new_actions >= search.actions_task_max
    )


def _verdict(leaf: LeafReached) -> str:
    return leaf.verdict.verdict if leaf.verdict is not None else ""


def _path(leaf: LeafReached) -> tuple[str, ...]:
    names = tuple(step.fingerprint for step in leaf.steps)
    return canonical_path(names, tuple(step.changed for step in leaf.steps))
