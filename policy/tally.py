"""What happened in one task's search, in numbers."""

from __future__ import annotations

from typing import Literal

from envs_node.messages.search import LeafReached, LossCause, TaskProgress
from envs_node.messages.tasks import Task

_NEVER_JUDGED = "the task's start was never judged"
_NO_START = {
    "task": "the task's start could not be reached",
    "desktop": "no desktop could show the task's start",
    "verifier": "the checker could not judge the task's start",
}
_State = Literal["", "vacuous", "refused"]


class Tally:
    """Counters of one task. Only counts; what they mean for the search is decided elsewhere."""

    def __init__(self) -> None:
        self.state: _State = ""
        self.cause: LossCause = ""
        self.branches = 0
        self.leaves = 0
        """Judged leaves of the search itself: success or failure, no gate, no certification."""
        self.verified = 0
        self.certified = 0
        self.distinct = 0
        self.repeated = 0
        self.uncertified = 0
        self.reassigned = 0
        self.lost = 0
        self.lost_why = ""
        self.lost_cause: LossCause = ""
        self.refused = 0
        self.replayed_actions = 0
        self.forked_actions = 0
        self.new_actions = 0
        self.wasted_actions = 0
        self.replays = 0
        self.replay_mismatches = 0
        self.states_compared = 0
        self.states_equal = 0
        self.states_masked = 0
        self.verdicts: dict[str, int] = {}
        self.rollouts: dict[int, tuple[bool, bool]] = {}

    def refuse(self, cause: LossCause = "") -> None:
        """The task cannot be searched."""
        self.state, self.cause = "refused", cause

    def give_up(self, why: str, cause: LossCause) -> None:
        """A branch broke for the last time."""
        self.lost += 1
        self.lost_why, self.lost_cause = why, cause

    def add_leaf(self, leaf: LeafReached, number: int, *, is_broken: bool) -> None:
        """Count one report; `number` says which rollout of the task it is.

        What a broken branch did is waste: a fault costs desktop time, and no task's budget.
        """
        if is_broken:
            self.wasted_actions += leaf.cost.replayed_actions + leaf.cost.new_actions
        else:
            self.replayed_actions += leaf.cost.replayed_actions
            self.forked_actions += leaf.cost.forked_actions
            self.new_actions += leaf.cost.new_actions
        if leaf.replay.steps:
            self.replays += 1
            self.replay_mismatches += int(leaf.replay.has_diverged)
            self.states_compared += leaf.replay.steps
            self.states_equal += leaf.replay.equal
            self.states_masked += leaf.replay.masked
        if leaf.verdict is None:
            return
        name = leaf.verdict.verdict
        self.verdicts[name] = self.verdicts.get(name, 0) + 1
        if leaf.kind in ("explore", "rollout") and name in ("success", "failure"):
            self.leaves += 1
            self.verified += int(name == "success")
        if leaf.kind == "rollout" and name in ("success", "failure"):
            self.rollouts[number] = (leaf.is_greedy, name == "success")

    def success_rate(self) -> float:
        """Of the judged leaves; 1 before the first."""
        return self.verified / self.leaves if self.leaves else 1.0

    def progress(
        self, task: Task, state: str, end: str, nodes: int, *, waits_for: str = ""
    ) -> TaskProgress:
        """The numbers as they are shown."""
        if self.state:
            state = self.state
        elif end:
            state = "solved" if self.certified else "exhausted"
        return TaskProgress(
            task_id=task.id,
            template=task.template,
            split=task.split,
            state=state,  # type: ignore[arg-type]  # one of the literals above
            branches=self.branches,
            leaves=self.leaves,
            reassigned=self.reassigned,
            lost=self.lost,
            refused=self.refused,
            verified=self.verified,
            certified=self.certified,
            distinct=self.distinct,
            repeated=self.repeated,
            uncertified=self.uncertified,
            nodes=nodes,
            replayed_actions=self.replayed_actions,
            forked_actions=self.forked_actions,
            new_actions=self.new_actions,
            wasted_actions=self.wasted_actions,
            replays=self.replays,
            replay_mismatches=self.replay_mismatches,
            states_compared=self.states_compared,
            states_equal=self.states_equal,
            states_masked=self.states_masked,
            verdicts=tuple(sorted(self.verdicts.items())),
            rollouts=tuple(self.rollouts[number] for number in sorted(self.rollouts)),
            detail=end or waits_for,
            cause=self.cause,
        )


def why_no_start(cause: LossCause, *, is_own: bool) -> str:
    """Why a task is refused whose gate was given up."""
    return _NO_START.get(cause or "task", _NEVER_JUDGED) if is_own else _NEVER_JUDGED
