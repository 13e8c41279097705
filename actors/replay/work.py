"""Keeps one desktop busy: asks for work, has it driven, hands the report in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import msgspec
import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.replay.asking import rest_s, tell_repeated
from envs_node.actors.replay.branch import BranchRecord
from envs_node.actors.replay.frames import FrameKeeper, is_certified
from envs_node.messages.base import ActorName, DesktopId, TaskId
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
            await trio.sleep(rest_s(failures))
            failures += 1
            continue
        failures = 0
        if isinstance(answer, Assign):
            last = answer.task_id
            report = await worker.serve(answer)
            broken = broken + 1 if report.reason == "infra" else 0
            if broken:  # do not draw the next branch into the same trouble at once
                await trio.sleep(rest_s(broken - 1))
        elif isinstance(answer, Idle):
            await trio.sleep(max(answer.retry_ms, 50) / 1000)


class _Worker:
    """Serves one branch after the other."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._frames = FrameKeeper(slot.desktop_id, slot.desktop, slot.ledger)

    async def serve(self, assign: Assign) -> LeafReached:
        """Have a branch driven, and its report and its pictures kept."""
        search = self._slot.refs(ActorName(f"search/{assign.task_id}"))
        lapsed, is_over = trio.Event(), False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_lease, search, assign, lapsed)
            report = await self._drive(assign, lapsed)
            wants_all = assign.keep_frames == "all"
            is_first = is_certified(report) and assign.keep_frames != "none"
            if is_first and not lapsed.is_set():  # the ledger has the pictures before the path
                with trio.move_on_after(self._slot.patience_s):
                    await self._frames.insist(assign, report)
            if not lapsed.is_set():
                is_over = await self._hand_in(search, report)
            nursery.cancel_scope.cancel()
        if wants_all and not (is_first or is_over) and report.cause != "desktop":
            await self._frames.spare(assign, report)
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

    async def _hand_in(self, search: Ref, report: LeafReached) -> bool:
        """Insist until the search has answered: what is finished is kept.

        Returns:
            Whether its run is over, and another is on.
        """
        attempt = 0
        with trio.move_on_after(self._slot.patience_s):
            while True:
                try:
                    answer = await search.ask(report, timeout_s=_ASK_S)
                except (AskTimeoutError, ActorCrashedError) as error:
                    tell_repeated(report, attempt, error)
                    if isinstance(error, ActorCrashedError) and await self._is_gone(report):
                        return True
                    await trio.sleep(rest_s(attempt))
                    attempt += 1
                    continue
                if isinstance(answer, LeaseLapsed):
                    _log.warning("report.refused", branch_id=report.branch_id, reason=answer.reason)
                return False
        _log.error("report.dropped", branch_id=report.branch_id, patience_s=self._slot.patience_s)
        return False

    async def _is_gone(self, report: LeafReached) -> bool:
        """Whether the head has another run on, which does not know the task."""
        try:
            answer = await self._slot.scheduler.ask(
                FetchTask(task_id=report.task_id), timeout_s=_ASK_S
            )
        except (AskTimeoutError, ActorCrashedError):
            return False
        return isinstance(answer, TaskUnknown)

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
