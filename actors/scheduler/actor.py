"""Sends free desktops to the tasks of a run, the least served first.

Owns      the list of a run's tasks, and how much work each was given.
Hears     WorkWanted, FetchTask, ProgressWanted.
Says      WorkWanted and ProgressWanted to searches; Assign, Idle, TaskFetched, Progress.
On crash  starts over with the same tasks; the searches know what is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import Ref
from envs_node.messages.base import Message, TaskId
from envs_node.messages.search import (
    Assign,
    Idle,
    Progress,
    ProgressWanted,
    TaskProgress,
    WorkWanted,
)
from envs_node.messages.status import LeaseStatus
from envs_node.messages.tasks import FetchTask, Task, TaskFetched, TaskUnknown

_SEARCH_S = 40.0
_WORKER_NS = 60 * 10**9
_OVER_RETRY_MS = 1000

SchedulerHeard = WorkWanted | FetchTask | ProgressWanted


class SchedulerActor(Actor[SchedulerHeard]):
    """Asks searches for work in the order of how little they were given so far."""

    def __init__(
        self,
        searches: dict[TaskId, Ref],
        tasks: dict[TaskId, Task],
        *,
        run: str,
        why_paused: Callable[[], str] = lambda: "",
    ) -> None:
        """While `why_paused` has a reason nothing is lent, and nobody who waits is asked."""
        self._run = run
        self._why_paused = why_paused
        self._latest = Progress(tasks=(), is_over=False, run=run)
        self._searches = searches
        self._tasks = tasks
        self._given = dict.fromkeys(tasks, 0)
        self._over: set[TaskId] = set()
        self._workers: dict[str, int] = {}

    async def hear(self, message: SchedulerHeard) -> Message | None:
        """Dispatch one message."""
        match message:
            case WorkWanted():
                return await self._find_work(message)
            case FetchTask(task_id=task_id):
                task = self._tasks.get(task_id)
                if task is None:
                    return TaskUnknown(task_id=task_id, reason="not a task of this run")
                return TaskFetched(task=task)
            case ProgressWanted():
                return await self._progress(message)
        assert_never(message)

    def statistics(self) -> dict[str, int | float]:
        """How many tasks still take desktops."""
        return {"tasks": len(self._tasks), "over": len(self._over)}

    async def _find_work(self, wanted: WorkWanted) -> Assign | Idle:
        self._workers[wanted.worker] = self.envelope.time_ns
        if self._why_paused():
            return Idle(retry_ms=_OVER_RETRY_MS)
        retry_ms = _OVER_RETRY_MS
        for task_id in sorted(self._given, key=self._given.__getitem__):
            if task_id in self._over:
                continue
            answer = await self._searches[task_id].ask(wanted, timeout_s=_SEARCH_S)
            if isinstance(answer, Assign):
                self._given[task_id] += 1
                return answer
            if isinstance(answer, Idle):
                if answer.is_over:
                    self._over.add(task_id)
                else:
                    retry_ms = min(retry_ms, answer.retry_ms)
        return Idle(retry_ms=retry_ms, is_over=len(self._over) == len(self._tasks))

    async def _progress(self, wanted: ProgressWanted) -> Progress:
        if reason := self._why_paused():
            return msgspec.structs.replace(self._latest, reason=reason)
        now_ns = self.envelope.time_ns
        tasks: list[TaskProgress] = []
        leases: list[LeaseStatus] = []
        is_over = True
        for ref in self._searches.values():
            answer = await ref.ask(wanted, timeout_s=_SEARCH_S)
            if isinstance(answer, Progress):
                tasks.extend(answer.tasks)
                leases.extend(answer.leases)
                is_over = is_over and answer.is_over
        alive = sum(1 for heard_ns in self._workers.values() if now_ns - heard_ns < _WORKER_NS)
        self._latest = Progress(
            tasks=tuple(tasks),
            is_over=is_over,
            desktops=alive,
            run=self._run,
            leases=tuple(leases),
        )
        return self._latest
