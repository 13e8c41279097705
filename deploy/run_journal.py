"""The journal of a process: its recorder, its room on the disk, and what is archived of it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import trio

from envs_node.actors.post import Post
from envs_node.actors.room import Room
from envs_node.deploy.journals import is_rebuilt, open_recorder, read_pasts
from envs_node.deploy.parts import HeadParts
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.journal import Entry, JournalError, JournalWriter, Record
from envs_node.messages.journal_archive import compact_journal
from envs_node.messages.lifecycle import ActorFailed
from envs_node.messages.search import Progress

_LOOK_S = 5.0
_CLOSE_S = 30.0
_ROTATE_BYTES = 1024 * 1024
"""A segment that is smaller at the end is left as it is: there is nothing to win."""

_log = structlog.get_logger(__name__)


class RunJournal:
    """What a process writes down of its deciding actors, and what it knows of their past.

    Raises:
        JournalError: the journal is damaged, or another process writes it.
    """

    def __init__(self, folder: Path, free_bytes_min: int, parts: HeadParts) -> None:
        self._folder = folder
        self._parts = parts
        self._writer: JournalWriter = parts.open_journal(folder)
        self._pasts: dict[ActorName, list[Record]] = {}
        self._is_read: set[ActorName] = set()
        self._ended: set[ActorName] = set()
        self._compacted = 0
        """Segments below this one are archived, but for what is live of them."""
        self.room = Room(
            folder, free_bytes_min, free_bytes=parts.free_bytes, is_short=self._is_short
        )
        self.recorder = open_recorder(self._writer, self.room)

    def read(self) -> None:
        """Read the past of every search. Blocking."""
        self._pasts = read_pasts(self._folder)
        self._ended = {
            name for name, past in self._pasts.items() if past and past[0].kind == "ended"
        }

    def last_ns(self) -> int:
        """The latest time that a search of this journal has heard of; 0 for none. After `read`."""
        lasts = (_last_ns(past) for past in self._pasts.values())
        return max(lasts, default=0)

    def has_ended(self, actor: ActorName) -> bool:
        """Whether an actor has nothing to do any more."""
        return actor in self._ended

    async def past_of(self, actor: ActorName) -> Iterator[Entry]:
        """What an actor needs to be rebuilt: from the one reading, and anew after a crash."""
        if actor not in self._is_read:
            self._is_read.add(actor)
            past = self._pasts.pop(actor, [])
        else:
            call = functools.partial(read_pasts, self._folder, actor)
            past = (await self._parts.run_blocking(call)).get(actor, [])
        return (record.entry() for record in past)

    async def end(self, post: Post, actor: ActorName, progress: Progress) -> None:
        """Write down how an actor has ended; what it heard is not needed any more."""
        await self.recorder.ended(post.envelope(progress, sender=actor, to=actor))
        self._ended.add(actor)

    def skip(self, request: Envelope[Message], failed: ActorFailed) -> None:
        """Write down what crashed an actor while it was rebuilt, so that it is not heard again."""
        self.recorder.crashed(request, failed)

    async def keep_compact(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Archive each segment soon after it was closed. A child of a supervisor."""
        task_status.started()
        while True:
            await trio.sleep(_LOOK_S)
            if self._writer.statistics()["segment"] > self._compacted:
                await self._compact()

    async def close(self) -> None:
        """Archive what is worth it, and let others write."""
        if self._writer.statistics()["segment_bytes"] >= _ROTATE_BYTES:
            try:
                self._writer.rotate()
            except JournalError as error:
                _log.warning("journal.uncompacted", why=str(error))
        try:
            if self._writer.statistics()["segment"] > 0:
                await self._compact()
        finally:
            self._writer.close()

    def abandon(self) -> None:
        """Let others write, and leave all as it is."""
        self._writer.close()

    async def _compact(self) -> None:
        below = self._writer.statistics()["segment"]
        call = functools.partial(compact_journal, self._folder, below, self._is_live)
        try:
            done = await self._parts.run_blocking(call)
        except (JournalError, OSError) as error:
            _log.warning("journal.uncompacted", why=str(error))
        else:
            self._compacted = below
            if done.segments:
                _log.info(
                    "journal.archived",
                    segments=done.segments,
                    whole_bytes=done.whole_bytes,
                    archive_bytes=done.archive_bytes,
                    live_bytes=done.live_bytes,
                )

    def _is_live(self, actor: ActorName) -> bool:
        return is_rebuilt(actor) and actor not in self._ended

    def _is_short(self) -> bool:
        return not self._writer.has_reserve() and not self._writer.refill()


def _last_ns(past: list[Record]) -> int:
    envelopes = (record.entry().envelope for record in reversed(past))
    return next((envelope.time_ns for envelope in envelopes if envelope is not None), 0)


@asynccontextmanager
async def open_journal(folder: Path, free_bytes_min: int) -> AsyncIterator[RunJournal]:
    """Keep the journal of a node that rebuilds nobody from it.

    Raises:
        JournalError: it is damaged, or another process writes it.
    """
    journal = RunJournal(folder, free_bytes_min, HeadParts())
    try:
        yield journal
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
            await journal.close()
