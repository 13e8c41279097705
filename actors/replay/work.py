"""Keeps one desktop busy: asks for work, has it driven, hands the report in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.messages.base import ActorName, DesktopId, Message
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.ledger import StoreBlob
from envs_node.messages.search import Assign, Drive, Idle, LeafReached, Renew, WorkWanted

_ASK_S = 20.0
_DRIVE_S = 900.0
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_REPORT_TRIES = 30

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


async def work(slot: Slot) -> None:
    """Work until cancelled. A head that is away is asked again, ever more slowly."""
    failures = broken = 0
    while True:
        try:
            answer = await slot.scheduler.ask(WorkWanted(worker=slot.worker), timeout_s=_ASK_S)
        except (AskTimeoutError, ActorCrashedError) as error:
            if failures == 0:  # a head without a run is told of once
                _log.warning("work.refused", worker=slot.worker, error=str(error))
            await trio.sleep(_backoff_s(failures))
            failures += 1
            continue
        failures = 0
        if isinstance(answer, Assign):
            report = await _serve(slot, answer)
            broken = broken + 1 if report is None or report.reason == "infra" else 0
            if broken:  # do not draw the next branch into the same trouble at once
                await trio.sleep(_backoff_s(broken - 1))
        elif isinstance(answer, Idle):
            await trio.sleep(max(answer.retry_ms, 50) / 1000)


async def _serve(slot: Slot, assign: Assign) -> LeafReached | None:
    search = slot.refs(ActorName(f"search/{assign.task_id}"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_keep_lease, search, assign)
        report = await slot.replay.ask(Drive(assign=assign), timeout_s=_DRIVE_S)
        if isinstance(report, LeafReached):
            if _is_certified(report):
                await _keep_frames(slot, report)
            await _hand_in(search, report)
            _tell_story(slot, report)
        nursery.cancel_scope.cancel()
    return report if isinstance(report, LeafReached) else None


async def _keep_lease(search: Ref, assign: Assign) -> None:
    while True:
        await trio.sleep(assign.lease_ms / 3000)
        renew = Renew(branch_id=assign.branch_id, lease=assign.lease)
        try:
            await search.ask(renew, timeout_s=assign.lease_ms / 3000)
        except (AskTimeoutError, ActorCrashedError) as error:
            _log.warning("lease.unrenewed", branch_id=assign.branch_id, error=str(error))


async def _keep_frames(slot: Slot, report: LeafReached) -> None:
    """Send the pictures of a certified path to the ledger before it hears of the path."""
    frames = dict.fromkeys(step.observation.signature.frame for step in report.steps)
    for frame in frames:
        fetched = await slot.desktop.ask(
            FetchFrame(desktop_id=slot.desktop_id, frame=frame), timeout_s=_ASK_S
        )
        if not isinstance(fetched, FrameFetched):
            _log.warning("frame.missed", branch_id=report.branch_id, frame=frame)
            continue
        sha256 = hashlib.sha256(fetched.png).hexdigest()
        blob = StoreBlob(name=frame, sha256=sha256, kind="png", data=fetched.png)
        await _insist(slot.ledger, blob)


async def _hand_in(search: Ref, report: LeafReached) -> None:
    await _insist(search, report)


async def _insist(ref: Ref, message: Message) -> None:
    """Ask until there is an answer: the receiver answers a repeated message alike."""
    for attempt in range(_REPORT_TRIES):
        try:
            await ref.ask(message, timeout_s=_ASK_S)
            return
        except (AskTimeoutError, ActorCrashedError) as error:
            name = type(message).__name__
            _log.warning("report.repeated", message=name, attempt=attempt, error=str(error))
            await trio.sleep(_backoff_s(attempt))


def _backoff_s(attempt: int) -> float:
    return _BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)]


def _is_certified(report: LeafReached) -> bool:
    verdict = report.verdict
    return report.kind == "certify" and verdict is not None and verdict.verdict == "success"


def _tell_story(slot: Slot, report: LeafReached) -> None:
    _log.info(
        "branch.ended",
        worker=slot.worker,
        branch_id=report.branch_id,
        kind=report.kind,
        reason=report.reason,
        verdict=report.verdict.verdict if report.verdict else "none",
        score=report.verdict.score if report.verdict else None,
        why=report.verdict.reason if report.verdict else report.detail,
        replayed_actions=report.cost.replayed_actions,
        new_actions=report.cost.new_actions,
        wall_ms=report.cost.wall_ms,
    )
