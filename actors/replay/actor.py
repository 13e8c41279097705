"""Drives one branch on one desktop: replay, compare, strike off, go on to the leaf.

Owns      the branch in hand, and what it has seen and done so far.
Hears     Drive.
Says      Configure, Reset, Act, Propose, Verify, Renew, NodeReached; answers LeafReached.
On crash  its worker starts over, too, and asks for work: the search sends the branch out again.
"""

from __future__ import annotations

from collections.abc import Callable

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.replay.asking import BranchLostError, Deadlines
from envs_node.actors.replay.branch import BranchRecord
from envs_node.actors.replay.forks import ForkPrices, actions_of
from envs_node.actors.replay.surroundings import Surroundings
from envs_node.messages.actions import Fail, Finish
from envs_node.messages.base import ActorName, BranchId, DesktopId
from envs_node.messages.desktop import Observation, Signature
from envs_node.messages.search import (
    Assign,
    Bucket,
    Drive,
    LeafReached,
    LeafReason,
    PrefixStep,
)
from envs_node.messages.tasks import Task
from envs_node.policy.agreement import bucket_proposals
from envs_node.policy.compare import compare

_STUCK_STEPS = 2


class ReplayActor(Actor[Drive]):
    """Drives branches, one after the other, on the desktop it was given.

    Args:
        refs: gives a reference by name: searches and proposers differ from branch to branch.
    """

    def __init__(
        self,
        desktop: Ref,
        verifier: Ref,
        refs: Callable[[ActorName], Ref],
        *,
        scheduler: ActorName,
        desktop_id: DesktopId,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._others = Surroundings(
            desktop,
            verifier,
            refs,
            scheduler=scheduler,
            desktop_id=desktop_id,
            deadlines=deadlines or Deadlines(),
        )
        self._prices = ForkPrices()
        self._last: tuple[BranchId, int] | None = None
        self._last_leaf: LeafReached | None = None

    async def hear(self, message: Drive) -> LeafReached:
        """Drive the branch; whatever breaks on the way is a leaf of reason `infra`.

        Asked again for the branch driven last, under the same lease, it answers from memory.
        """
        assign = message.assign
        if self._last_leaf is None or self._last != (assign.branch_id, assign.lease):
            self._last_leaf = None
            record = BranchRecord(assign)
            try:
                self._last_leaf = await self._drive(assign, record)
            except BranchLostError as error:
                self._last_leaf = record.lost(str(error), error.cause)
            self._last = (assign.branch_id, assign.lease)
        return self._last_leaf

    async def _drive(self, assign: Assign, record: BranchRecord) -> LeafReached:
        task = await self._others.fetch(assign)
        copied = await self._others.reset(task, record, actions_of(assign))
        if assign.kind == "gate":
            return await self._leaf("replayed", task, record)
        difference = self._compare(assign.start, record) if assign.prefix else ""
        if difference:
            record.started_apart(difference)
            if assign.kind != "certify":
                return record.diverged(difference)
        for step, seen in zip(assign.prefix, copied, strict=False):
            difference = self._take_over(step, seen, record)
            if difference:
                return record.diverged(difference)
        for step in assign.prefix[len(copied) :]:
            await self._others.renew(record)
            difference = await self._replay_step(step, record)
            if difference and (assign.kind != "certify" or record.is_refused):
                return record.diverged(difference)
            if difference:  # a success is certified by its verdict; where it strayed is told
                record.strayed(difference)
        if assign.kind == "certify" or record.is_ended:
            return await self._leaf("replayed", task, record)
        reason = await self._explore(task, assign, record)
        return await self._leaf(reason, task, record)

    def _take_over(self, step: PrefixStep, seen: Observation, record: BranchRecord) -> str:
        """Count a step that a copy has behind it; how what was seen differs from the record."""
        record.forked(record.bucket_of(step), seen, self._prices.step_ms)
        return self._compare(step.reached, record)

    async def _replay_step(self, step: PrefixStep, record: BranchRecord) -> str:
        """Replay one action; return how the state differs from the record, empty if it does not."""
        bucket = record.bucket_of(step)
        if isinstance(step.action, Finish | Fail):
            record.end(bucket, is_replayed=True)
            return ""
        if not await self._others.act(bucket, record, is_replayed=True):
            record.is_refused = True
            return "the desktop refuses the action"
        return self._compare(step.reached, record)

    def _compare(self, recorded: Signature | None, record: BranchRecord) -> str:
        """How the state differs from the record, empty if it does not or there is none."""
        if recorded is None:
            return ""
        outcome, difference = compare(recorded, record.observation.signature)
        record.compared(outcome)
        return difference if outcome == "diverged" else ""

    async def _explore(self, task: Task, assign: Assign, record: BranchRecord) -> LeafReason:
        """Follow the policy until it ends the branch, is stuck, or has no steps left."""
        bucket = assign.strike_off
        while record.depth < assign.steps_max:
            if bucket is None:
                bucket = await self._choose(task, assign, record)
            if bucket is None:
                return "no_proposal"
            action = bucket.proposal.action
            if isinstance(action, Finish | Fail):
                record.end(bucket, is_replayed=False)
                return "finish" if isinstance(action, Finish) else "fail"
            if not await self._others.act(bucket, record, is_replayed=False):
                return "refused"
            if record.repeats() >= _STUCK_STEPS:
                return "stuck"
            bucket = None
        return "step_limit"

    async def _choose(self, task: Task, assign: Assign, record: BranchRecord) -> Bucket | None:
        answer = await self._others.propose(task, assign, record)
        buckets = bucket_proposals(answer.proposals, assign.fingerprint)
        if assign.kind == "explore" and self._prices.is_fork_worth(buckets, assign, record):
            self._prices.learn_fork(await self._others.keep_fork(record))
        if buckets and assign.kind == "explore":
            await self._others.report(record.node(buckets, answer.entropy), record)
        return buckets[0] if buckets else None

    async def _leaf(self, reason: LeafReason, task: Task, record: BranchRecord) -> LeafReached:
        return record.leaf(reason, await self._others.verify(task, record))
