"""Searches one task: lends branches to desktops and learns from what they report.

Owns      one task's tree, budget and failure memory.
Hears     WorkWanted, WorkerFreed, Renew, NodeReached, LeafReached, ProgressWanted, Tick.
Says      Assign, Idle, Renewed, LeaseLapsed, Progress; Admit and TaskOutcome to the ledger.
On crash  rebuilt from the journal; branches under way report to the rebuilt one.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import assert_never

import structlog

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.messages.base import Message
from envs_node.messages.ledger import Admit, Admitted, AlreadyKnown, TaskOutcome, Trajectory
from envs_node.messages.search import (
    Assign,
    Idle,
    LeafReached,
    NodeReached,
    Progress,
    ProgressWanted,
    Renew,
    Tick,
    WorkerFreed,
    WorkWanted,
)
from envs_node.policy.task_search import RETRY_MS, TaskSearch

_log = structlog.get_logger(__name__)

SearchHeard = WorkWanted | WorkerFreed | Renew | NodeReached | LeafReached | ProgressWanted | Tick


class SearchActor(Actor[SearchHeard]):
    """Feeds messages to a `TaskSearch` and its successes to the ledger.

    A ledger that is away keeps no report back: what it is owed is told again at every tick, and the
    task is not over before.
    """

    def __init__(self, search: TaskSearch, ledger: Ref, *, ledger_timeout_s: float = 30.0) -> None:
        self._search = search
        self._ledger = ledger
        self._ledger_timeout_s = ledger_timeout_s
        self._owed: deque[Trajectory] = deque()
        self._is_begun = False
        self._is_outcome_kept = False

    def is_needless(self, message: SearchHeard) -> bool:
        """Most ticks are: no lease is over, and the ledger is owed nothing."""
        if not isinstance(message, Tick) or message.is_anew or self._owed:
            return False
        is_outcome_owed = self._search.is_over and not self._is_outcome_kept
        return not is_outcome_owed and not self._search.is_due(self.envelope.time_ns)

    async def hear(self, message: SearchHeard) -> Message | None:
        """Dispatch one message."""
        now_ns = self.envelope.time_ns
        match message:
            case WorkWanted():
                return await self._next_work(message)
            case WorkerFreed(worker=worker):
                self._search.freed(worker, now_ns)
                return None
            case Renew(branch_id=branch_id, lease=lease):
                return self._search.renew(branch_id, lease, now_ns)
            case NodeReached():
                return self._search.node_reached(message, now_ns)
            case LeafReached():
                answer = self._search.leaf_reached(message, now_ns, self.envelope.sender)
                await self._pay()
                return answer
            case ProgressWanted(with_leases=with_leases):
                leases = self._search.lent(now_ns) if with_leases else ()
                progress = self._search.progress()
                return Progress(tasks=(progress,), is_over=self._is_over(), leases=leases)
            case Tick():
                self._search.lapse(now_ns)
                await self._keep_outcome()
                return None
        assert_never(message)

    def statistics(self) -> dict[str, int | float]:
        """The counters of the search."""
        progress = self._search.progress()
        return {"nodes": progress.nodes, "leaves": progress.leaves, "distinct": progress.distinct}

    async def _next_work(self, wanted: WorkWanted) -> Assign | Idle:
        if not self._is_begun:  # the id is in the journal, and no other run's search has it
            digest = hashlib.sha256(self.envelope.id.encode()).digest()
            self._search.begin(int.from_bytes(digest[:4], "big"))
            self._is_begun = True
        answer = self._search.next_work(wanted.worker, self.envelope.time_ns)
        if isinstance(answer, Assign):
            return answer
        await self._keep_outcome()
        if answer.is_over and not self._is_over():
            return Idle(retry_ms=RETRY_MS)
        return answer

    def _is_over(self) -> bool:
        """Nothing left to try, and the ledger knows it all."""
        return self._search.is_over and not self._owed and self._is_outcome_kept

    async def _pay(self) -> None:
        """Tell the ledger of every success it has not answered for."""
        self._owed.extend(self._search.take_admissions())
        while self._owed:
            trajectory = self._owed[0]
            said = await self._tell_ledger(Admit(trajectory=trajectory))
            if not isinstance(said, Admitted | AlreadyKnown):
                return
            self._owed.popleft()
            self._search.admitted(trajectory)
            _log.info(
                "success.admitted",
                task_id=trajectory.task_id,
                trajectory_id=trajectory.id,
                is_new=isinstance(said, Admitted),
                is_certified=trajectory.is_certified,
                steps=len(trajectory.steps),
            )

    async def _tell_ledger(self, message: Message) -> Message | None:
        try:
            return await self._ledger.ask(message, timeout_s=self._ledger_timeout_s)
        except (AskTimeoutError, ActorCrashedError) as error:
            name = type(message).__name__
            _log.warning("ledger.missed", message=name, error=str(error), owed=len(self._owed))
            return None

    async def _keep_outcome(self) -> None:
        """Tell the ledger what it is owed, and the task's tally once it is over."""
        await self._pay()
        if not self._search.is_over or self._is_outcome_kept or self._owed:
            return
        progress = self._search.progress()
        said = await self._tell_ledger(
            TaskOutcome(
                task_id=progress.task_id,
                template=progress.template,
                split=progress.split,
                leaves=progress.leaves,
                successes=progress.verified,
                state=progress.state,
            )
        )
        if said is None:
            return
        self._is_outcome_kept = True
        _log.info(
            "task.ended",
            task_id=progress.task_id,
            state=progress.state,
            why=progress.detail,
            leaves=progress.leaves,
            distinct=progress.distinct,
        )
