"""A search that is driven to its end in memory, journalled, and rebuilt from any prefix of it."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.post import Post
from envs_node.deploy.journals import RebuiltSearch, open_recorder, read_pasts
from envs_node.deploy.parts import make_search
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.journal import JournalWriter
from envs_node.messages.ledger import Admit, Admitted, AlreadyKnown, OutcomeKept, TaskOutcome
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Assign, Idle, Progress, Tick, WorkWanted
from envs_node.policy.task_search import TaskSearch
from tests.fakes import fake_task, note_screen
from tests.policy.drive import drive

SETTINGS = SearchSettings(leaves_task_max=4, successes_task_max=2, steps_max=5, lease_ms=1000)
SEARCH, LEDGER, WORKER = map(ActorName, ("search/note-000", "ledger", "work/d-0"))
_STEP_NS = 10**7


class FakeLedger(Actor[Admit | TaskOutcome]):
    """Keeps each path once, as the real one does."""

    def __init__(self, kept: Mapping[tuple[str, ...], bool] | None = None) -> None:
        self.kept = dict(kept or {})
        self.on_kept: Callable[[], None] = lambda: None
        """Called when a path is kept, and nobody has been told yet."""

    async def hear(self, message: Admit | TaskOutcome) -> Message:
        match message:
            case TaskOutcome(task_id=task_id):
                return OutcomeKept(task_id=task_id)
            case Admit(trajectory=found):
                is_known = found.path in self.kept
                self.kept[found.path] = self.kept.get(found.path, False) or found.is_certified
                self.on_kept()
                kind = AlreadyKnown if is_known else Admitted
                return kind(trajectory_id=found.id)


class SearchRun:
    """One life of a search with a journal, over a ledger."""

    def __init__(
        self,
        folder: Path,
        ledger: FakeLedger,
        *,
        make: Callable[[], TaskSearch] | None = None,
    ) -> None:
        self.folder = folder
        self.ledger = ledger
        self.ended: list[Progress] = []
        self.post = Post(RunId("r"), clock_ns=self._tick_ns, stamp="test")
        self._make = make or functools.partial(make_search, fake_task(), SETTINGS)
        self._now_ns = 0
        self.rebuilt: RebuiltSearch

    @asynccontextmanager
    async def open(self, *, clock_ns: int = 0) -> AsyncIterator[None]:
        """Rebuild the search from its journal, and let it be asked."""
        self._now_ns = clock_ns
        past = read_pasts(self.folder).get(SEARCH, []) if self.folder.exists() else []
        with JournalWriter(self.folder) as writer:
            self.post.recorder = open_recorder(writer)
            async with trio.open_nursery() as nursery:
                await nursery.start(run_actor, self.ledger, LEDGER, self.post)
                self.rebuilt = RebuiltSearch(
                    self._make(),
                    self.post.ref(LEDGER, sender=SEARCH),
                    (record.entry() for record in past),
                    on_end=self._end,
                    on_crash=self.post.recorder.crashed,
                )
                try:
                    await nursery.start(run_actor, self.rebuilt, SEARCH, self.post)
                    yield
                finally:
                    nursery.cancel_scope.cancel()

    async def finish(self, after_each: Callable[[], None] = lambda: None) -> None:
        """Drive branch after branch until nothing is left to do."""
        screen = note_screen()
        while True:
            answer = await self.say(WorkWanted(worker=WORKER))
            after_each()
            if isinstance(answer, Idle):
                if answer.is_over:
                    return
                await self.say(Tick())
                after_each()
                continue
            assert isinstance(answer, Assign)
            nodes, leaf = drive(screen, answer)
            for report in (*nodes, leaf):
                await self.say(report)
                after_each()

    async def say(self, message: Message) -> Message | None:
        """Ask the search; a message that is only told has no answer."""
        try:
            return await self.post.ref(SEARCH, sender=WORKER).ask(message, timeout_s=10)
        except ActorCrashedError as error:
            if "does not answer" in str(error):
                return None
            raise

    def state(self) -> Any:
        """All that the search knows."""
        kept = {"_search", "_owed", "_is_begun", "_is_outcome_kept"}
        return {name: dump(vars(self.rebuilt)[name]) for name in sorted(kept)}

    async def _end(self, progress: Progress) -> None:
        self.ended.append(progress)
        assert self.post.recorder is not None
        await self.post.recorder.ended(self.post.envelope(progress, sender=SEARCH, to=SEARCH))

    def _tick_ns(self) -> int:
        self._now_ns += _STEP_NS
        return self._now_ns


def dump(value: Any) -> Any:
    """Anything as plain values that can be compared, insides and all."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, msgspec.Struct):
        fields = {name: dump(getattr(value, name)) for name in value.__struct_fields__}
        return (type(value).__name__, fields)
    if isinstance(value, Mapping):
        return [(dump(key), dump(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, map(dump, value)))
    if isinstance(value, list | tuple | deque):
        return [dump(item) for item in value]
    return (type(value).__name__, {name: dump(item) for name, item in vars(value).items()})
