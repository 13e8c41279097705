"""Brings the pictures of a branch to the ledger: those that it has not, each once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.replay.asking import rest_s, tell_repeated
from envs_node.messages.base import DesktopId, Message
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.ledger import (
    BLOBS_WAIT_MAX_S,
    BLOBS_WANTED_MAX,
    BlobsLacking,
    BlobStored,
    BlobsWanted,
    StoreBlob,
)
from envs_node.messages.search import Assign, LeafReached

_ASK_S = 20.0
_REMEMBERED_MAX = 8192

_log = structlog.get_logger(__name__)


class FrameKeeper:
    """Has the pictures kept that one desktop saw. What the ledger has is not sent.

    Args:
        remembered_max: pictures of which it is remembered that the ledger has them.
    """

    def __init__(
        self,
        desktop_id: DesktopId,
        desktop: Ref,
        ledger: Ref,
        *,
        remembered_max: int = _REMEMBERED_MAX,
    ) -> None:
        self._desktop_id = desktop_id
        self._desktop = desktop
        self._ledger = ledger
        self._remembered_max = remembered_max
        self._kept: OrderedDict[tuple[int, str], None] = OrderedDict()
        """By the run's number: another run has another ledger. Those used last come last."""

    async def insist(self, assign: Assign, report: LeafReached) -> None:
        """Have them kept, however long that takes: a certified path is nothing without them."""
        lacking, _ = await self._lacking(assign, report, is_told=True)
        await self._send(assign, report, lacking, is_told=True)

    async def spare(self, assign: Assign, report: LeafReached) -> None:
        """Have them kept when their turn comes; drop them if that is too late."""
        is_done = False
        with trio.move_on_after(BLOBS_WAIT_MAX_S):
            lacking, wait_s = await self._lacking(assign, report, is_told=False)
            if lacking and wait_s < BLOBS_WAIT_MAX_S:
                await trio.sleep(wait_s)
                await self._send(assign, report, lacking, is_told=False)
            is_done = not lacking or wait_s < BLOBS_WAIT_MAX_S
        if not is_done:
            frames = frames_of(report)
            _log.warning(
                "frames.dropped",
                branch_id=report.branch_id,
                frames=len(frames),
                dropped=sum((assign.search_id, frame) not in self._kept for frame in frames),
            )

    async def _lacking(
        self, assign: Assign, report: LeafReached, *, is_told: bool
    ) -> tuple[list[str], float]:
        """The pictures that the ledger has not, and in how many seconds they may come.

        It is asked for those of which nothing is known.
        """
        unsure = []
        for frame in frames_of(report):
            if (assign.search_id, frame) in self._kept:
                self._remember(assign, frame)
            else:
                unsure.append(frame)
        lacking: list[str] = []
        wait_ms = 0
        for names in _batches(unsure):
            answer = await self._ask(BlobsWanted(names=names), is_told=is_told)
            missing = names
            if isinstance(answer, BlobsLacking):
                missing, wait_ms = answer.names, max(wait_ms, answer.wait_ms)
            lacking += missing
            for frame in names:
                if frame not in missing:
                    self._remember(assign, frame)
        return lacking, wait_ms / 1000

    async def _send(
        self, assign: Assign, report: LeafReached, frames: list[str], *, is_told: bool
    ) -> None:
        for frame in frames:
            fetch = FetchFrame(desktop_id=self._desktop_id, frame=frame)
            try:
                fetched = await self._desktop.ask(fetch, timeout_s=_ASK_S)
            except (AskTimeoutError, ActorCrashedError) as error:
                _log.warning("frame.missed", branch_id=report.branch_id, error=str(error))
                return
            if not isinstance(fetched, FrameFetched):
                _log.warning("frame.missed", branch_id=report.branch_id, frame=frame)
                continue
            sha256 = hashlib.sha256(fetched.png).hexdigest()
            blob = StoreBlob(name=frame, sha256=sha256, kind="png", data=fetched.png)
            if isinstance(await self._ask(blob, is_told=is_told), BlobStored):
                self._remember(assign, frame)

    async def _ask(self, message: BlobsWanted | StoreBlob, *, is_told: bool) -> Message:
        """Ask the ledger until it answers, ever more slowly."""
        attempt = 0
        while True:
            try:
                return await self._ledger.ask(message, timeout_s=_ASK_S)
            except (AskTimeoutError, ActorCrashedError) as error:
                if is_told:
                    tell_repeated(message, attempt, error)
            await trio.sleep(rest_s(attempt))
            attempt += 1

    def _remember(self, assign: Assign, frame: str) -> None:
        key = (assign.search_id, frame)
        self._kept[key] = None
        self._kept.move_to_end(key)
        if len(self._kept) > self._remembered_max:
            self._kept.popitem(last=False)


def frames_of(report: LeafReached) -> list[str]:
    """What was seen before each step, and where the last one led; each picture once."""
    seen = [step.observation.signature.frame for step in report.steps]
    last = [step.reached.frame for step in report.steps[-1:]]
    return list(dict.fromkeys(seen + last))


def is_certified(report: LeafReached) -> bool:
    """Whether this branch is a success that came about a second time."""
    verdict = report.verdict
    return report.kind == "certify" and verdict is not None and verdict.verdict == "success"


def _batches(frames: list[str]) -> Iterable[tuple[str, ...]]:
    for start in range(0, len(frames), BLOBS_WANTED_MAX):
        yield tuple(frames[start : start + BLOBS_WANTED_MAX])
