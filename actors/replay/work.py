"""Keeps one desktop busy: asks for work, has it driven, hands the report in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NoReturn

import msgspec
import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.replay.branch import BranchRecord
from envs_node.actors.replay.frames import KeptFrames, is_certified
from envs_node.messages.base import ActorName, DesktopId, TaskId
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.ledger import StoreBlob
from envs_node.messages.search import (
    Assign,
    Drive,
    Idle,
    LeafReached,
    LeaseLapsed,
    Renew,
    WorkWanted,
)
from envs_node.messages.tasks import FetchTask, TaskUnknown

_ASK_S = 20.0
_DRIVE_S = 900.0
_DRIVE_TRIES = 4
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_TOLD_EVERY = 12
"""Of the tries to reach a head that is away, so many go untold."""

_log = structlog.get_logger(__name__)


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs to reach."""

    worker: ActorName
    desktop_id: DesktopId
    replay: Ref
    desktop: Ref
    scheduler: Ref
    ledger: Ref
    refs: Callable[[ActorName], Ref]
    """A reference to an actor of the head, by name."""
    patience_s: float = 3600.0
    """How long to keep a finished report for a head that is away."""


async def work(slot: Slot) -> NoReturn:
    """Work until cancelled. A head that is away is asked again, ever more slowly."""
    worker = _Worker(slot)
    failures = broken = 0
    last: TaskId | None = None
    while True:
        try:
            wanted = WorkWanted(worker=slot.worker, task_id=last)
            answer = await slot.scheduler.ask(wanted, timeout_s=_ASK_S)
        except (AskTimeoutError, ActorCrashedError) as error:
            if failures == 0:  # a head without a run is told of once
                _log.warning("work.refused", worker=slot.worker, error=str(error))
            await trio.sleep(_backoff_s(failures))
            failures += 1
            continue
        failures = 0
        if isinstance(answer, Assign):
            last = answer.task_id
            report = await worker.serve(answer)
            broken = broken + 1 if report.reason == "infra" else 0
            if broken:  # do not draw the next branch into the same trouble at once
                await trio.sleep(_backoff_s(broken - 1))
        elif isinstance(answer, Idle):
            await trio.sleep(max(answer.retry_ms, 50) / 1000)


class _Worker:
    """Serves one branch after the other."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._frames = KeptFrames()

    async def serve(self, assign: Assign) -> LeafReached:
        """Have a branch driven, and its report and its pictures kept."""
        search = self._slot.refs(ActorName(f"search/{assign.task_id}"))
        lapsed = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_lease, search, assign, lapsed)
            report = await self._drive(assign, lapsed)
            wants_all = assign.keep_frames == "all"
            is_first = is_certified(report) and assign.keep_frames != "none"
            if is_first and not lapsed.is_set():  # the ledger has the pictures before the path
                with trio.move_on_after(self._slot.patience_s):
                    await self._keep_frames(assign, report, insists=True)
            if not lapsed.is_set():
                await self._hand_in(search, report)
            nursery.cancel_scope.cancel()
        if wants_all and not is_first and report.cause != "desktop":
            await self._keep_frames(assign, report, insists=False)
        self._tell_story(report)
        return report

    async def _drive(self, assign: Assign, lapsed: trio.Event) -> LeafReached:
        """Have it driven. Asked again after a time-out, the driver answers once it is done."""
        why = "it is driven no more"
        for _ in range(_DRIVE_TRIES):
            try:
                answer = await self._slot.replay.ask(Drive(assign=assign), timeout_s=_DRIVE_S)
            except AskTimeoutError as error:
                why = str(error)
                if lapsed.is_set():
                    break
                continue
            except ActorCrashedError as error:
                why = str(error)
                break
            if isinstance(answer, LeafReached):
                return answer
            why = f"a driver answered {answer!r:.100}"
            break
        return BranchRecord(assign).lost(why, "desktop")

    async def _hand_in(self, search: Ref, report: LeafReached) -> None:
        """Insist until the search has answered, or is another run's: what is finished is kept."""
        attempt = 0
        with trio.move_on_after(self._slot.patience_s):
            while True:
                try:
                    answer = await search.ask(report, timeout_s=_ASK_S)
                except (AskTimeoutError, ActorCrashedError) as error:
                    _tell_missed("LeafReached", attempt, error)
                    if isinstance(error, ActorCrashedError) and await self._is_gone(report):
                        return
                    await trio.sleep(_backoff_s(attempt))
                    attempt += 1
                    continue
                if isinstance(answer, LeaseLapsed):
                    _log.warning("report.refused", branch_id=report.branch_id, reason=answer.reason)
                return
        _log.error("report.dropped", branch_id=report.branch_id, patience_s=self._slot.patience_s)

    async def _is_gone(self, report: LeafReached) -> bool:
        """Whether the head has another run on, which does not know the task."""
        try:
            answer = await self._slot.scheduler.ask(
                FetchTask(task_id=report.task_id), timeout_s=_ASK_S
            )
        except (AskTimeoutError, ActorCrashedError):
            return False
        return isinstance(answer, TaskUnknown)

    async def _keep_frames(self, assign: Assign, report: LeafReached, *, insists: bool) -> None:
        """Send the ledger the pictures of a branch that it has not, each once."""
        for frame in self._frames.missing(assign, report):
            try:
                fetched = await self._slot.desktop.ask(
                    FetchFrame(desktop_id=self._slot.desktop_id, frame=frame), timeout_s=_ASK_S
                )
            except (AskTimeoutError, ActorCrashedError) as error:
                _log.warning("frame.missed", branch_id=report.branch_id, error=str(error))
                return
            if not isinstance(fetched, FrameFetched):
                _log.warning("frame.missed", branch_id=report.branch_id, frame=frame)
                continue
            sha256 = hashlib.sha256(fetched.png).hexdigest()
            blob = StoreBlob(name=frame, sha256=sha256, kind="png", data=fetched.png)
            if not await self._store(blob, insists=insists):
                return
            self._frames.add(assign, frame)

    async def _store(self, blob: StoreBlob, *, insists: bool) -> bool:
        attempt = 0
        while True:
            try:
                await self._slot.ledger.ask(blob, timeout_s=_ASK_S)
                return True
            except (AskTimeoutError, ActorCrashedError) as error:
                _tell_missed("StoreBlob", attempt, error)
                if not insists and attempt >= 1:
                    return False
                await trio.sleep(_backoff_s(attempt))
                attempt += 1

    def _tell_story(self, report: LeafReached) -> None:
        _log.info(
            "branch.ended",
            worker=self._slot.worker,
            branch_id=report.branch_id,
            kind=report.kind,
            reason=report.reason,
            cause=report.cause,
            verdict=report.verdict.verdict if report.verdict else "none",
            score=report.verdict.score if report.verdict else None,
            why=report.verdict.reason if report.verdict else report.detail,
            replayed_actions=report.cost.replayed_actions,
            new_actions=report.cost.new_actions,
            wall_ms=report.cost.wall_ms,
        )


async def _keep_lease(search: Ref, assign: Assign, lapsed: trio.Event) -> None:
    """Renew at a third of the lease; what is not heard is said again at once, while it holds."""
    third_s = assign.lease_ms / 3000
    renew = Renew(branch_id=assign.branch_id, lease=assign.lease)
    wait_s, misses = third_s, 0
    while not lapsed.is_set():
        await trio.sleep(wait_s)
        try:
            answer = await search.ask(renew, timeout_s=third_s / 2)
        except (AskTimeoutError, ActorCrashedError) as error:
            if misses == 0:
                _log.warning("lease.unrenewed", branch_id=assign.branch_id, error=str(error))
            wait_s, misses = third_s / 4, misses + 1
            continue
        wait_s, misses = third_s, 0
        if isinstance(answer, LeaseLapsed):
            _log.warning("lease.lapsed", branch_id=assign.branch_id, reason=answer.reason)
            lapsed.set()


def _tell_missed(message: str, attempt: int, error: Exception) -> None:
    if attempt % _TOLD_EVERY == 0:
        _log.warning("report.repeated", message=message, attempt=attempt, error=str(error))


def _backoff_s(attempt: int) -> float:
    return _BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)]
