"""Where a branch is worth keeping its desktop, for others to begin there. Pure, and remembers."""

from __future__ import annotations

from envs_node.actors.replay.branch import BranchRecord
from envs_node.messages.actions import Action, Fail, Finish
from envs_node.messages.search import Assign, Bucket
from envs_node.policy.agreement import agreed

_FORK_MS = 1500.0
"""What a fork is expected to take, there and back, before one was measured."""
_STEP_MS = 500
_WEIGHT = 0.3
_DEAREST = 2.0
"""A copy takes about as long to come up as it takes to be kept."""


class ForkPrices:
    """What keeping a desktop takes here; known from what was said, so that a replay agrees."""

    step_ms = _STEP_MS
    """What a step that a copy spares is taken to cost."""

    def __init__(self) -> None:
        self.fork_ms = _FORK_MS
        self._refusals = 0
        self._skipped = 0

    def is_fork_worth(
        self, buckets: tuple[Bucket, ...], assign: Assign, record: BranchRecord
    ) -> bool:
        """Whether branches will be bought here, and coming here again costs more than a fork.

        One that was refused is not asked for again at once: the more often, the later.
        """
        wanted = agreed(buckets, assign.support_min, len(buckets))
        if not record.can_fork or len(wanted) < 2 or record.spent_ms <= self.fork_ms:
            return False
        if self._skipped < self._refusals:
            self._skipped += 1
            return False
        return True

    def learn_fork(self, fork_ms: int) -> None:
        """Take in what keeping it took; 0 for one that was refused."""
        self._skipped = 0
        self._refusals = 0 if fork_ms else min(2 * self._refusals + 1, 63)
        if fork_ms:
            self.fork_ms += _WEIGHT * (_DEAREST * fork_ms - self.fork_ms)


def actions_of(assign: Assign) -> tuple[Action, ...] | None:
    """The actions of a prefix behind which a branch may begin on a copy.

    None for a certification, which is the audit, and for the gate: both start afresh.
    """
    if assign.kind not in ("explore", "rollout"):
        return None
    actions = []
    for step in assign.prefix:
        if isinstance(step.action, Finish | Fail):
            break
        actions.append(step.action)
    return tuple(actions)
