"""Remembers every verified, distinct success exactly once.

Owns      the ledger's database and the folder of screenshots beside it.
Hears     BlobsWanted, StoreBlob, Admit, TaskOutcome, Query.
Says      BlobsLacking, BlobStored, BlobRefused, Admitted, AlreadyKnown, OutcomeKept, LedgerStats.
On crash  reopens; what was answered is on disk, and what was not is asked again, to the same end.
          A full disk is no crash: it waits for room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar, assert_never

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.actors.ledger.errors import BlobMismatchError, LedgerFullError
from envs_node.actors.ledger.turns import Turns
from envs_node.actors.room import Room
from envs_node.messages.base import Message
from envs_node.messages.ledger import (
    BLOBS_WAIT_MAX_S,
    Admit,
    Admitted,
    AlreadyKnown,
    BlobRefused,
    BlobsLacking,
    BlobStored,
    BlobsWanted,
    LedgerStats,
    OutcomeKept,
    Query,
    StoreBlob,
    TaskOutcome,
    Trajectory,
)

LedgerHeard: TypeAlias = BlobsWanted | StoreBlob | Admit | TaskOutcome | Query
_ResultT = TypeVar("_ResultT")
_log = structlog.get_logger()


class Store(Protocol):
    """What the actor needs of a store. Calls block, and are durable when they return."""

    def admit(self, trajectory: Trajectory) -> bool:
        """Keep a success; False when its path is known."""

    def lacking(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these names under which nothing is kept, in order, each once."""

    def store_blob(self, name: str, sha256: str, kind: str, data: bytes) -> str:
        """Keep bytes; returns the digest kept under the name."""

    def keep_outcome(self, outcome: TaskOutcome) -> None:
        """Keep the latest tally of a task."""

    def stats(self) -> LedgerStats:
        """Counts over the whole ledger."""

    def close(self) -> None:
        """Let go of the files."""


class LedgerActor(Actor[LedgerHeard]):
    """Owns the one store that a run writes to."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        timeout_s: float = 60.0,
        run_blocking: RunBlocking = run_in_thread,
        room: Room | None = None,
    ) -> None:
        """`open_store` blocks and is called anew after a crash.

        With `room`, what is to be kept waits until the disk takes it; without, it is refused.
        """
        self._room = room
        self._run_blocking = run_blocking
        self._open_store = open_store
        self._timeout_s = timeout_s
        self._store: Store | None = None
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._turns = Turns(BLOBS_WAIT_MAX_S)
        self._counts = {"admitted": 0, "already_known": 0, "blobs_stored": 0, "blobs_refused": 0}

    async def start(self) -> None:
        """Open the store; making a new one wants room, too."""
        self._store = await self._keep(self._open_store)

    async def stop(self) -> None:
        """Close the store, once the call in progress has ended."""
        store, self._store = self._store, None
        if store is not None:
            with trio.move_on_after(self._timeout_s, shield=True) as scope:
                await self._run_blocking(store.close, limiter=self._one_at_a_time)
            if scope.cancelled_caught:
                _log.warning("ledger.abandoned", timeout_s=self._timeout_s)

    async def hear(self, message: LedgerHeard) -> Message | None:
        """Dispatch."""
        assert self._store is not None, "hear was called before start"
        match message:
            case BlobsWanted(names=names):
                store = self._store
                lacking = await self._in_thread(lambda: store.lacking(names))
                wait_s = self._turns.give(len(lacking), trio.current_time())
                return BlobsLacking(names=lacking, wait_ms=int(wait_s * 1000))
            case StoreBlob():
                return await self._store_blob(self._store, message)
            case Admit(trajectory=trajectory):
                return await self._admit(self._store, trajectory)
            case TaskOutcome(task_id=task_id):
                store = self._store
                await self._keep(lambda: store.keep_outcome(message))
                return OutcomeKept(task_id=task_id)
            case Query():
                return await self._in_thread(self._store.stats)
            case _ as unreachable:
                assert_never(unreachable)

    def statistics(self) -> dict[str, int | float]:
        """Answers given since the start."""
        return dict(self._counts)

    async def _store_blob(self, store: Store, blob: StoreBlob) -> BlobStored | BlobRefused:
        began_s = trio.current_time()
        try:
            sha256 = await self._keep(
                lambda: store.store_blob(blob.name, blob.sha256, blob.kind, blob.data)
            )
        except (BlobMismatchError, LedgerFullError, ValueError) as error:
            self._counts["blobs_refused"] += 1
            _log.warning("blob.refused", name=blob.name, reason=str(error))
            return BlobRefused(sha256=blob.sha256, reason=str(error))
        self._turns.took(trio.current_time() - began_s)
        self._counts["blobs_stored"] += 1
        return BlobStored(sha256=sha256)

    async def _admit(self, store: Store, trajectory: Trajectory) -> Admitted | AlreadyKnown:
        is_new = await self._keep(lambda: store.admit(trajectory))
        self._counts["admitted" if is_new else "already_known"] += 1
        _log.info(
            "trajectory.admitted" if is_new else "trajectory.recognised",
            trajectory_id=trajectory.id,
            task_id=trajectory.task_id,
            steps=len(trajectory.steps),
            is_certified=trajectory.is_certified,
        )
        if is_new:
            return Admitted(trajectory_id=trajectory.id)
        return AlreadyKnown(trajectory_id=trajectory.id)

    async def _keep(self, call: Callable[[], _ResultT]) -> _ResultT:
        """Write, as soon as there is room."""
        if self._room is not None:
            await self._room.wait()
        while True:
            try:
                return await self._in_thread(call)
            except LedgerFullError as error:
                if self._room is None:
                    raise
                await self._room.wait_after(str(error))

    async def _in_thread(self, call: Callable[[], _ResultT]) -> _ResultT:
        with trio.fail_after(self._timeout_s):
            return await self._run_blocking(call, limiter=self._one_at_a_time)
