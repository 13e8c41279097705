"""Searches one task: lends branches to desktops and learns from what they report.

Owns      one task's tree, budget and failure memory.
Hears     WorkWanted, Renew, NodeReached, LeafReached, ProgressWanted, Tick.
Says      Assign, Idle, Renewed, LeaseLapsed, Progress; Admit and TaskOutcome to the ledger.
On crash  rebuilt from the journal; branches under way report to the rebuilt one.
"""

from __future__ import annotations

from typing import assert_never

import structlog

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import Ref
from envs_node.messages.base import Message
from envs_node.messages.ledger import Admit, Admitted, AlreadyKnown, TaskOutcome
from envs_node.messages.search import (
    LeafReached,
    NodeReached,
    Progress,
    ProgressWanted,
    Renew,
    Tick,
    WorkWanted,
)
from envs_node.policy.task_search import TaskSearch

_log = structlog.get_logger(__name__)

SearchHeard = WorkWanted | Renew | NodeReached | LeafReached | ProgressWanted | Tick


class SearchActor(Actor[SearchHeard]):
    """Feeds messages to a `TaskSearch` and its successes to the ledger."""

    def __init__(self, search: TaskSearch, ledger: Ref, *, ledger_timeout_s: float = 30.0) -> None:
        self._search = search
        self._ledger = ledger
        self._ledger_timeout_s = ledger_timeout_s
        self._is_outcome_kept = False

    async def hear(self, message: SearchHeard) -> Message | None:
        """Dispatch one message."""
        now_ns = self.envelope.time_ns
        match message:
            case WorkWanted(worker=worker):
                answer = self._search.next_work(worker, now_ns)
                await self._keep_outcome()
                return answer
            case Renew(branch_id=branch_id, lease=lease):
                return self._search.renew(branch_id, lease, now_ns)
            case NodeReached():
                return self._search.node_reached(message, now_ns)
            case LeafReached():
                return await self._leaf(message)
            case ProgressWanted(with_leases=with_leases):
                leases = self._search.lent(now_ns) if with_leases else ()
                progress = self._search.progress()
                return Progress(tasks=(progress,), is_over=self._search.is_over, leases=leases)
            case Tick():
                self._search.lapse(now_ns)
                return None
        assert_never(message)

    def statistics(self) -> dict[str, int | float]:
        """The counters of the search."""
        progress = self._search.progress()
        return {"nodes": progress.nodes, "leaves": progress.leaves, "distinct": progress.distinct}

    async def _leaf(self, report: LeafReached) -> Message:
        answer = self._search.leaf_reached(report)
        for trajectory in self._search.take_admissions():
            said = await self._ledger.ask(
                Admit(trajectory=trajectory), timeout_s=self._ledger_timeout_s
            )
            if not isinstance(said, Admitted | AlreadyKnown):
                raise TypeError(f"the ledger answered Admit with {said!r}")
            self._search.admitted(trajectory)
            _log.info(
                "success.admitted",
                task_id=trajectory.task_id,
                trajectory_id=trajectory.id,
                is_new=isinstance(said, Admitted),
                is_certified=trajectory.is_certified,
                steps=len(trajectory.steps),
            )
        return answer

    async def _keep_outcome(self) -> None:
        """Tell the ledger the task's tally once it is over."""
        if not self._search.is_over or self._is_outcome_kept:
            return
        progress = self._search.progress()
        await self._ledger.ask(
            TaskOutcome(
                task_id=progress.task_id,
                template=progress.template,
                split=progress.split,
                leaves=progress.leaves,
                successes=progress.verified,
                state=progress.state,
            ),
            timeout_s=self._ledger_timeout_s,
        )
        self._is_outcome_kept = True
        _log.info(
            "task.ended",
            task_id=progress.task_id,
            state=progress.state,
            why=progress.detail,
            leaves=progress.leaves,
            distinct=progress.distinct,
        )
