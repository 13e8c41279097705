"""What a branch needs of others: its desktop and its verifier, the policy, the head."""

from __future__ import annotations

from collections.abc import Callable

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.replay.asking import BranchLostError, Deadlines, ask, insist, refusal
from envs_node.actors.replay.branch import BranchRecord
from envs_node.messages.actions import Action
from envs_node.messages.base import ActorName, DesktopId, Message
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    Configure,
    Configured,
    ForkKept,
    ForkRefused,
    KeepFork,
    Observation,
    Reset,
    ResetDone,
    ResetFailed,
)
from envs_node.messages.propose import Proposed
from envs_node.messages.search import Assign, Bucket, LeaseLapsed, NodeReached
from envs_node.messages.tasks import FetchTask, Task, TaskFetched
from envs_node.messages.verify import Verdict, Verified

_RENEW_S = 5.0


class Surroundings:
    """Asks them, and says whose fault it is when one does not answer as it should.

    Every method raises `BranchLostError` then. What may be asked twice is: each of them does what
    it is asked once, and answers again.
    """

    def __init__(
        self,
        desktop: Ref,
        verifier: Ref,
        refs: Callable[[ActorName], Ref],
        *,
        scheduler: ActorName,
        desktop_id: DesktopId,
        deadlines: Deadlines,
    ) -> None:
        self._desktop = desktop
        self._verifier = verifier
        self._refs = refs
        self._scheduler = refs(scheduler)
        self._desktop_id = desktop_id
        self._deadlines = deadlines
        self._task: Task | None = None

    async def fetch(self, assign: Assign) -> Task:
        """The task of a branch; the last one is remembered."""
        if self._task is not None and self._task.sha256 == assign.task_sha256:
            return self._task
        answer = await self._tell_head(self._scheduler, FetchTask(task_id=assign.task_id))
        if not isinstance(answer, TaskFetched):
            raise BranchLostError(f"no task {assign.task_id}: {answer}", "head")
        self._task = answer.task
        return answer.task

    async def reset(
        self, task: Task, record: BranchRecord, prefix: tuple[Action, ...] | None = None
    ) -> tuple[Observation, ...]:
        """Have the desktop stand at the task's start, or be a copy behind some of these actions.

        Args:
            prefix: None where no copy will do.

        Returns:
            What the origin of that copy saw after each of them, and the copy last; else nothing.
        """
        desktop_id = self._desktop_id
        configure = Configure(desktop_id=desktop_id, task=task, branch=record.branch_id)
        configured = await self._ask_desktop(configure, self._deadlines.act_s)
        if not isinstance(configured, Configured):
            raise BranchLostError(refusal(configured), "task")
        reset = Reset(desktop_id=desktop_id, episode=record.episode, prefix=prefix)
        done = await self._ask_desktop(reset, self._deadlines.reset_s)
        if not isinstance(done, ResetDone):
            is_setup = isinstance(done, ResetFailed) and done.is_setup
            raise BranchLostError(refusal(done), "task" if is_setup else "desktop")
        record.begin(done)
        return (*done.seen[1:], done.observation) if done.forked_steps else ()

    async def keep_fork(self, record: BranchRecord) -> int:
        """Have the desktop kept as it is; what that took in ms, 0 if it was refused."""
        where = {"episode": record.episode, "step": record.depth}
        keep = KeepFork(desktop_id=self._desktop_id, **where)
        answer = await self._ask_desktop(keep, self._deadlines.act_s)
        if isinstance(answer, ForkKept):
            record.kept(answer.fork_ms)
            return answer.fork_ms
        if not isinstance(answer, ForkRefused):
            raise BranchLostError(refusal(answer), "desktop")
        return 0

    async def renew(self, record: BranchRecord) -> None:
        """Stop here when the branch is another's. A head that is away does not stop a replay."""
        if record.is_unheard:
            return
        try:
            answer = await self._search(record).ask(record.renewal(), timeout_s=_RENEW_S)
        except (ActorCrashedError, AskTimeoutError):
            record.is_unheard = True
            return
        _check_lease(answer)

    async def act(self, bucket: Bucket, record: BranchRecord, *, is_replayed: bool) -> bool:
        """Perform an action; False when it makes no sense on this screen."""
        act = Act(
            desktop_id=self._desktop_id,
            episode=record.episode,
            step=record.depth,
            action=bucket.proposal.action,
        )
        answer = await self._ask_desktop(act, self._deadlines.act_s)
        if isinstance(answer, ActFailed) and answer.is_refused:
            return False
        if not isinstance(answer, Acted):
            raise BranchLostError(refusal(answer), "desktop")
        record.acted(bucket, answer, is_replayed=is_replayed)
        return True

    async def propose(self, task: Task, assign: Assign, record: BranchRecord) -> Proposed:
        """Ask the policy what it would do; one that starts over is waited for."""
        answer = await insist(
            self._refs(assign.proposer),
            record.question(task.instruction),
            timeout_s=self._deadlines.propose_s,
            away_s=self._deadlines.policy_away_s,
            cause="policy",
        )
        if not isinstance(answer, Proposed):
            raise BranchLostError(refusal(answer), "policy")
        record.proposed(answer)
        return answer

    async def report(self, node: NodeReached, record: BranchRecord) -> None:
        """Tell the search where the branch stands; a head that starts over is waited for."""
        _check_lease(await self._tell_head(self._search(record), node))

    async def verify(self, task: Task, record: BranchRecord) -> Verdict:
        """Have the desktop judged."""
        answer = await ask(
            self._verifier,
            record.verification(task),
            timeout_s=self._deadlines.verify_s,
            cause="verifier",
        )
        if not isinstance(answer, Verified):
            raise BranchLostError(refusal(answer), "verifier")
        return answer.verdict

    async def _ask_desktop(self, message: Message, timeout_s: float) -> Message:
        return await ask(self._desktop, message, timeout_s=timeout_s, cause="desktop")

    async def _tell_head(self, ref: Ref, message: Message) -> Message:
        limits = self._deadlines
        return await insist(
            ref, message, timeout_s=limits.head_s, away_s=limits.head_away_s, cause="head"
        )

    def _search(self, record: BranchRecord) -> Ref:
        return self._refs(ActorName(f"search/{record.task_id}"))


def _check_lease(answer: Message) -> None:
    if isinstance(answer, LeaseLapsed):
        raise BranchLostError(answer.reason, "head")
