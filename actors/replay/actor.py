"""Drives one branch on one desktop: replay, compare, strike off, go on to the leaf.

Owns      the branch in hand, and what it has seen and done so far.
Hears     Drive.
Says      Configure, Reset, Act, Propose, Verify, NodeReached; answers LeafReached.
On crash  the branch's lease runs out and the search sends the branch out again.
"""

from __future__ import annotations

from collections.abc import Callable

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.replay.branch import (
    BranchLostError,
    BranchRecord,
    Deadlines,
    refusal,
)
from envs_node.messages.actions import Fail, Finish
from envs_node.messages.base import ActorName, DesktopId
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    Configure,
    Configured,
    Reset,
    ResetDone,
)
from envs_node.messages.propose import Proposed
from envs_node.messages.search import (
    Assign,
    Bucket,
    Drive,
    LeafReached,
    LeafReason,
    LeaseLapsed,
    NodeReached,
    PrefixStep,
)
from envs_node.messages.tasks import FetchTask, Task, TaskFetched
from envs_node.messages.verify import Verified
from envs_node.policy.agreement import bucket_proposals
from envs_node.policy.compare import compare

_STUCK_STEPS = 2
_SEARCH_S = 30.0


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
        self._desktop = desktop
        self._verifier = verifier
        self._refs = refs
        self._scheduler = refs(scheduler)
        self._desktop_id = desktop_id
        self._deadlines = deadlines or Deadlines()
        self._episode = 0
        self._task: Task | None = None

    async def hear(self, message: Drive) -> LeafReached:
        """Drive the branch; whatever breaks on the way is a leaf of reason `infra`."""
        record = BranchRecord(message.assign)
        try:
            return await self._drive(message.assign, record)
        except (ActorCrashedError, AskTimeoutError, BranchLostError) as error:
            return record.lost(str(error))

    async def _drive(self, assign: Assign, record: BranchRecord) -> LeafReached:
        task = await self._fetch(assign)
        await self._reset(task, record)
        if assign.kind == "gate":
            return await self._leaf("replayed", task, record)
        for step in assign.prefix:
            difference = await self._replay_step(step, record)
            if difference and (assign.kind != "certify" or record.is_refused):
                return record.diverged(difference)
            if difference:  # a success is certified by its verdict; where it strayed is told
                record.strayed(difference)
        if assign.kind == "certify" or record.is_ended:
            return await self._leaf("replayed", task, record)
        reason = await self._explore(task, assign, record)
        return await self._leaf(reason, task, record)

    async def _fetch(self, assign: Assign) -> Task:
        if self._task is not None and self._task.sha256 == assign.task_sha256:
            return self._task
        answer = await self._scheduler.ask(FetchTask(task_id=assign.task_id), timeout_s=_SEARCH_S)
        if not isinstance(answer, TaskFetched):
            raise BranchLostError(f"no task {assign.task_id}: {answer}")
        self._task = answer.task
        return answer.task

    async def _reset(self, task: Task, record: BranchRecord) -> None:
        desktop_id = self._desktop_id
        configured = await self._desktop.ask(
            Configure(desktop_id=desktop_id, task=task), timeout_s=self._deadlines.act_s
        )
        if not isinstance(configured, Configured):
            raise BranchLostError(refusal(configured))
        self._episode += 1
        done = await self._desktop.ask(
            Reset(desktop_id=desktop_id, episode=self._episode), timeout_s=self._deadlines.reset_s
        )
        if not isinstance(done, ResetDone):
            raise BranchLostError(refusal(done))
        record.begin(done)

    async def _replay_step(self, step: PrefixStep, record: BranchRecord) -> str:
        """Replay one action; return how the state differs from the record, empty if it does not."""
        bucket = record.bucket_of(step)
        if isinstance(step.action, Finish | Fail):
            record.end(bucket, is_replayed=True)
            return ""
        if not await self._act(bucket, record, is_replayed=True):
            record.is_refused = True
            return "the desktop refuses the action"
        if step.reached is None:
            return ""
        outcome, difference = compare(step.reached, record.observation.signature)
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
            if not await self._act(bucket, record, is_replayed=False):
                return "refused"
            if record.repeats() >= _STUCK_STEPS:
                return "stuck"
            bucket = None
        return "step_limit"

    async def _choose(self, task: Task, assign: Assign, record: BranchRecord) -> Bucket | None:
        proposer = self._refs(assign.proposer)
        answer = await proposer.ask(
            record.question(task.instruction), timeout_s=self._deadlines.propose_s
        )
        if not isinstance(answer, Proposed):
            raise BranchLostError(refusal(answer))
        record.proposed(answer)
        buckets = bucket_proposals(answer.proposals, assign.fingerprint)
        if buckets and assign.kind == "explore":
            await self._report(record.node(buckets, answer.entropy))
        return buckets[0] if buckets else None

    async def _report(self, node: NodeReached) -> None:
        search = self._refs(ActorName(f"search/{node.task_id}"))
        answer = await search.ask(node, timeout_s=_SEARCH_S)
        if isinstance(answer, LeaseLapsed):
            raise BranchLostError(answer.reason)

    async def _act(self, bucket: Bucket, record: BranchRecord, *, is_replayed: bool) -> bool:
        """Perform an action; False when it makes no sense on this screen."""
        act = Act(
            desktop_id=self._desktop_id,
            episode=self._episode,
            step=record.depth,
            action=bucket.proposal.action,
        )
        answer = await self._desktop.ask(act, timeout_s=self._deadlines.act_s)
        if isinstance(answer, ActFailed) and answer.is_refused:
            return False
        if not isinstance(answer, Acted):
            raise BranchLostError(refusal(answer))
        record.acted(bucket, answer, is_replayed=is_replayed)
        return True

    async def _leaf(self, reason: LeafReason, task: Task, record: BranchRecord) -> LeafReached:
        verify = record.verification(task)
        answer = await self._verifier.ask(verify, timeout_s=self._deadlines.verify_s)
        return record.leaf(reason, answer.verdict if isinstance(answer, Verified) else None)
