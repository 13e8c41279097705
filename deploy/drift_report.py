"""How the replays and copies of a whole run compared with their records, by application."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from envs_node.deploy.redrive import recorded_leaves
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.search import LeafReached

_CAUSES_MAX = 3
_CAUSE_CHARACTERS_MAX = 160


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What differed first, in how many branches, and one of them to look at."""

    difference: str
    branches: int
    example: str
    """A branch: `envs-node replay RUN --branch` drives it again and draws both."""


class AppDrift(msgspec.Struct, frozen=True, kw_only=True):
    """The branches of one application, or of several that a task uses together."""

    app: str
    branches: int
    """Those that something of was compared."""
    diverged_branches: int
    states: int
    """States compared: starts, and where steps led."""
    equal: int
    masked: int
    diverged: int
    forked: int
    """Of the states, those of copies, whose steps were not performed again."""
    causes: tuple[Cause, ...] = ()
    """The most frequent first differences."""


class DriftReport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    run: str
    apps: tuple[AppDrift, ...]

    @property
    def has_diverged(self) -> bool:
        """Whether any branch came to stand in another state."""
        return any(app.diverged_branches for app in self.apps)


def report_drift(folder: RunFolder) -> DriftReport:
    """Read a run's journal.

    Raises:
        JournalError: it is missing or damaged.
    """
    tasks = folder.load_tasks() if folder.is_run() else ()
    apps = {str(task.id): " + ".join(task.apps) or task.template for task in tasks}
    # Where search and driver share a journal, it has each report twice.
    leaves = {(leaf.branch_id, leaf.lease): leaf for leaf in recorded_leaves(folder)}
    return DriftReport(run=folder.run, apps=drift_by_app(leaves.values(), apps))


def drift_by_app(leaves: Iterable[LeafReached], apps: Mapping[str, str]) -> tuple[AppDrift, ...]:
    """Add up the reports of branches, those of unknown tasks by the task's id."""
    found: dict[str, list[LeafReached]] = defaultdict(list)
    for leaf in leaves:
        if leaf.replay.steps or leaf.replay.has_diverged:
            found[apps.get(leaf.task_id, leaf.task_id)].append(leaf)
    return tuple(_add_up(app, found[app]) for app in sorted(found))


def _add_up(app: str, leaves: list[LeafReached]) -> AppDrift:
    checks = [leaf.replay for leaf in leaves]
    states = sum(check.steps for check in checks)
    equal, masked = sum(check.equal for check in checks), sum(check.masked for check in checks)
    strayed = [leaf for leaf in leaves if leaf.replay.has_diverged]
    counted = Counter(_cause_of(leaf) for leaf in strayed)
    return AppDrift(
        app=app,
        branches=len(leaves),
        diverged_branches=len(strayed),
        states=states,
        equal=equal,
        masked=masked,
        diverged=states - equal - masked,
        forked=sum(check.forked for check in checks),
        causes=tuple(
            Cause(
                difference=difference,
                branches=count,
                example=next(leaf.branch_id for leaf in strayed if _cause_of(leaf) == difference),
            )
            for difference, count in counted.most_common(_CAUSES_MAX)
        ),
    )


def _cause_of(leaf: LeafReached) -> str:
    where = "the start" if leaf.replay.is_start_off else "a step"
    return f"{where}: {leaf.replay.difference}"[:_CAUSE_CHARACTERS_MAX]
