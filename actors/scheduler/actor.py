"""Sends free desktops to the tasks of a run, the least served first.

Owns      the list of a run's tasks, how much work each was given, and who works for which.
Hears     WorkWanted, FetchTask, ProgressWanted.
Says      WorkWanted, WorkerFreed, ProgressWanted to searches; Assign, Idle, TaskFetched, Progress.
On crash  starts over with the same tasks; the searches know what is under way.
"""

from __future__ import annotations

from typing import assert_never

import msgspec
import structlog

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import MailboxFullError, Ref
from envs_node.actors.scheduler.asking import Pause, ask_search
from envs_node.messages.base import ActorName, Message, TaskId
from envs_node.messages.search import (
    Assign,
    Idle,
    Progress,
    ProgressWanted,
    TaskProgress,
    WorkerFreed,
    WorkWanted,
)
from envs_node.messages.status import LeaseStatus
from envs_node.messages.tasks import FetchTask, Task, TaskFetched, TaskUnknown

_WORKER_NS = 60 * 10**9
_OVER_RETRY_MS = 1000
_MISSED_RETRY_MS = 2000
_IDLE_APART_MS = 10
_IDLE_RETRY_MS_MAX = 10_000

_log = structlog.get_logger(__name__)

SchedulerHeard = WorkWanted | FetchTask | ProgressWanted


class SchedulerActor(Actor[SchedulerHeard]):
    """Asks searches for work in the order of how little they were given so far."""

    def __init__(
        self,
        searches: dict[TaskId, Ref],
        tasks: dict[TaskId, Task],
        *,
        run: str,
        room: Pause | None = None,
    ) -> None:
        """While `room` pauses nothing is lent, and searches, which wait for it, are not asked."""
        self._run = run
        self._room = room
        self._latest = Progress(tasks=(), is_over=False, run=run)
        self._searches = searches
        self._tasks = tasks
        self._given = dict.fromkeys(tasks, 0)
        self._over: set[TaskId] = set()
        self._rests: dict[TaskId, tuple[int, int]] = {}
        """Tasks that had no work: until when they are not asked again, and when to come back."""
        self._workers: dict[ActorName, int] = {}
        self._works_for: dict[ActorName, TaskId] = {}
        self._idle: set[ActorName] = set()
        """Workers that found nothing when they asked last."""
        self._known: dict[TaskId, TaskProgress] = {}
        """Of each task what was heard last: a search that restarts keeps its row."""

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
        self._free(wanted)
        now_ns = self.envelope.time_ns
        self._workers[wanted.worker] = now_ns
        self._idle.discard(wanted.worker)
        if self._why_paused():
            return Idle(retry_ms=_OVER_RETRY_MS)
        for task_id in self._in_turn(now_ns):
            # Noted before it is asked: an answer that comes too late may be a branch.
            self._works_for[wanted.worker] = task_id
            answer = await self._ask(task_id, wanted)
            if isinstance(answer, Assign):
                self._given[task_id] += 1
                return answer
            if self._why_paused():
                break
            if answer is not None:
                del self._works_for[wanted.worker]
                self._let_rest(task_id, answer, now_ns)
            else:
                self._rest(task_id, _MISSED_RETRY_MS, now_ns)
        retry_ms = min((retry_ms for _, retry_ms in self._rests.values()), default=_OVER_RETRY_MS)
        self._idle.add(wanted.worker)
        # The more workers wait, the less often each asks: one of them asks every 10 ms, however
        # many there are, so a head of thousands is not kept busy by those that have nothing to do.
        apart_ms = min(len(self._idle) * _IDLE_APART_MS, _IDLE_RETRY_MS_MAX)
        is_over = len(self._over) == len(self._tasks)
        return Idle(retry_ms=max(retry_ms, apart_ms), is_over=is_over)

    def _free(self, wanted: WorkWanted) -> None:
        """Tell the search that this worker worked for that it holds nothing any more.

        After a restart of the head the worker itself says which that was; when both have started
        over, the branch goes to others once its lease is over.
        """
        is_new = wanted.worker not in self._workers
        task_id = self._works_for.pop(wanted.worker, wanted.task_id if is_new else None)
        if task_id is None or task_id not in self._searches:
            return
        try:
            self._searches[task_id].tell(WorkerFreed(worker=wanted.worker))
        except MailboxFullError as error:
            _log.warning("worker.unfreed", worker=wanted.worker, error=str(error))

    def _in_turn(self, now_ns: int) -> list[TaskId]:
        """The tasks that may have work, the one that was given least first."""
        for task_id, (until_ns, retry_ms) in list(self._rests.items()):
            if not now_ns < until_ns <= now_ns + retry_ms * 1_000_000:
                del self._rests[task_id]
        ready = (t for t in self._given if t not in self._over and t not in self._rests)
        return sorted(ready, key=self._given.__getitem__)

    async def _ask(self, task_id: TaskId, message: Message) -> Message | None:
        return await ask_search(task_id, self._searches[task_id], message, self._room)

    def _why_paused(self) -> str:
        return "" if self._room is None else self._room.why_paused()

    def _let_rest(self, task_id: TaskId, answer: Message, now_ns: int) -> None:
        if isinstance(answer, Idle) and answer.is_over:
            self._over.add(task_id)
        elif isinstance(answer, Idle):
            self._rest(task_id, answer.retry_ms, now_ns)

    def _rest(self, task_id: TaskId, retry_ms: int, now_ns: int) -> None:
        """With many free desktops a task without work is not asked for each of them."""
        self._rests[task_id] = (now_ns + retry_ms * 500_000, retry_ms)

    async def _progress(self, wanted: ProgressWanted) -> Progress:
        now_ns = self.envelope.time_ns
        tasks: list[TaskProgress] = []
        leases: list[LeaseStatus] = []
        is_over = True
        for task_id in self._searches:
            answer = None if self._why_paused() else await self._ask(task_id, wanted)
            if reason := self._why_paused():
                return msgspec.structs.replace(self._latest, reason=reason)
            is_over = is_over and isinstance(answer, Progress) and answer.is_over
            if isinstance(answer, Progress):
                self._known.update((row.task_id, row) for row in answer.tasks)
                leases.extend(answer.leases)
            if task_id in self._known:
                tasks.append(self._known[task_id])
        silent = {w for w, heard_ns in self._workers.items() if now_ns - heard_ns >= _WORKER_NS}
        self._idle -= silent
        alive = len(self._workers) - len(silent)
        self._latest = Progress(
            tasks=tuple(tasks),
            is_over=is_over,
            desktops=alive,
            run=self._run,
            leases=tuple(leases),
        )
        return self._latest
