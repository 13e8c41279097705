"""A run in numbers: what `summary.json` holds and what is printed at the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from envs_node import __version__
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.fit import FitReport
from envs_node.messages.search import Progress, TaskProgress
from envs_node.policy.statistics import Estimate, mean_over_tasks, pass_at_k, wilson


class SearchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, and what it cost."""

    tasks: int
    templates: int
    templates_certified: int
    templates_unsolved: tuple[str, ...]
    desktops: int
    branches: int
    leaves: int
    new_actions: int
    replayed_actions: int
    forked_actions: int
    """Steps of prefixes that were not performed again: their branches began on copies."""
    verdicts: dict[str, int]
    verified: int
    certified: int
    distinct: int
    repeated: int
    """Verified successes on a path that had been found before."""
    uncertified: int
    replays: int
    replay_mismatches: int
    replay_mismatch_rate: float
    states_compared: int
    """Of replays and of copies, with the record of them."""
    states_equal: int
    states_masked: int
    reassigned: int
    lost: int
    states: dict[str, int]
    """Tasks by how they ended."""
    tasks_lost: tuple[str, ...] = ()
    """Those of which a branch was given up, through no failure of the policy."""


class EvalSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How often a policy succeeds on tasks it was not fitted on."""

    policy: str
    tasks: int
    rollouts: int
    """Sampled ones a task, beside the greedy one."""
    greedy: Estimate
    pass_1: Estimate
    pass_k: Estimate
    k: int
    new_actions: int
    verdicts: dict[str, int]
    judged: int = 0
    """Tasks of which every rollout was judged; the others count with those that were."""
    unjudged: tuple[str, ...] = ()
    """The others: each with how many of its rollouts were judged."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. What a run did not do is left out."""

    run: str
    version: str
    search: SearchSummary | None = None
    fit: FitReport | None = None
    eval_before: EvalSummary | None = None
    eval_after: EvalSummary | None = None
    wall_s: dict[str, float] = {}
    """By phase."""


def read_summary(folder: RunFolder) -> Summary:
    """What a run was in numbers so far; hardly anything when it was stopped early."""
    try:
        return msgspec.json.decode(folder.summary.read_bytes(), type=Summary)
    except (FileNotFoundError, msgspec.DecodeError):
        return Summary(run=folder.run, version=__version__)


def with_search(summary: Summary, search: SearchSummary, wall_s: float) -> Summary:
    """What else a run did stays when its search is resumed: a demo's fit, say.

    Args:
        wall_s: how long the search took this time.
    """
    took_s = {"search": 0.0} | summary.wall_s
    for name in {"search", "all"} & took_s.keys():
        took_s[name] = round(took_s[name] + wall_s, 1)
    return msgspec.structs.replace(summary, search=search, wall_s=took_s)


def summarise_search(progress: Progress, desktops: int) -> SearchSummary:
    """Add up the tasks of a search."""
    tasks = progress.tasks
    templates = {task.template for task in tasks}
    solved = {task.template for task in tasks if task.certified}
    replays, mismatches = _sum(tasks, "replays"), _sum(tasks, "replay_mismatches")
    return SearchSummary(
        tasks=len(tasks),
        templates=len(templates),
        templates_certified=len(solved),
        templates_unsolved=tuple(sorted(templates - solved)),
        desktops=desktops,
        branches=_sum(tasks, "branches"),
        leaves=_sum(tasks, "leaves"),
        new_actions=_sum(tasks, "new_actions"),
        replayed_actions=_sum(tasks, "replayed_actions"),
        forked_actions=_sum(tasks, "forked_actions"),
        verdicts=_verdicts(tasks),
        verified=_sum(tasks, "verified"),
        certified=_sum(tasks, "certified"),
        distinct=_sum(tasks, "distinct"),
        repeated=_sum(tasks, "repeated"),
        uncertified=_sum(tasks, "uncertified"),
        replays=replays,
        replay_mismatches=mismatches,
        replay_mismatch_rate=mismatches / replays if replays else 0.0,
        states_compared=_sum(tasks, "states_compared"),
        states_equal=_sum(tasks, "states_equal"),
        states_masked=_sum(tasks, "states_masked"),
        reassigned=_sum(tasks, "reassigned"),
        lost=_sum(tasks, "lost"),
        states=dict(sorted(Counter(task.state for task in tasks).items())),
        tasks_lost=tuple(task.task_id for task in tasks if task.lost),
    )


def summarise_eval(progress: Progress, policy: str, rollouts: int, k: int) -> EvalSummary:
    """Estimate greedy, pass@1 and pass@k over the tasks of an eval.

    A task some of whose rollouts broke counts with those that were judged; one with fewer than
    `k` judged is left out of pass@k.
    """
    greedy: list[bool] = []
    pass_1: list[float] = []
    pass_k: list[float] = []
    for task in progress.tasks:
        greedy += [is_success for is_greedy, is_success in task.rollouts if is_greedy]
        drawn = [is_success for is_greedy, is_success in task.rollouts if not is_greedy]
        if drawn:
            pass_1.append(pass_at_k(sum(drawn), len(drawn), 1))
        if len(drawn) >= k:
            pass_k.append(pass_at_k(sum(drawn), len(drawn), k))
    chance = random.Random(0)
    unjudged = tuple(
        f"{task.task_id} ({len(task.rollouts)} of {rollouts + 1} rollouts)"
        for task in progress.tasks
        if len(task.rollouts) <= rollouts
    )
    return EvalSummary(
        policy=policy,
        tasks=len(progress.tasks),
        rollouts=rollouts,
        greedy=wilson(sum(greedy), len(greedy)),
        pass_1=mean_over_tasks(pass_1, chance),
        pass_k=mean_over_tasks(pass_k, chance),
        k=k,
        new_actions=_sum(progress.tasks, "new_actions"),
        verdicts=_verdicts(progress.tasks),
        judged=len(progress.tasks) - len(unjudged),
        unjudged=unjudged,
    )


def _sum(tasks: Sequence[TaskProgress], field: str) -> int:
    return sum(getattr(task, field) for task in tasks)


def _verdicts(tasks: Sequence[TaskProgress]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for task in tasks:
        total.update(dict(task.verdicts))
    return dict(sorted(total.items()))
