"""What is journalled of a run, and how an actor is rebuilt from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import cast

import msgspec
import structlog
import trio

from envs_node.actors.loop import crash_of
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.recorder import TIMEOUT, Recorder
from envs_node.actors.room import Room
from envs_node.actors.search.actor import SearchActor, SearchHeard
from envs_node.messages.base import ActorName, BranchId, Envelope, EnvsError, Message
from envs_node.messages.desktop import Configure
from envs_node.messages.journal import Entry, JournalWriter, Record, read_live
from envs_node.messages.lifecycle import ActorFailed
from envs_node.messages.propose import Propose
from envs_node.messages.search import (
    BranchCost,
    Idle,
    LeafReached,
    LeaseLapsed,
    NodeReached,
    Progress,
    ProgressWanted,
    Renew,
    ReplayCheck,
    Tick,
    WorkWanted,
)
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verify
from envs_node.policy.task_search import TaskSearch

_JOURNALLED = ("search/", "replay/")
_REBUILT = "search/"
_NOTHING = msgspec.Raw(b"\xc0")
_CRASHED = ActorFailed.__name__.encode()

_log = structlog.get_logger(__name__)


def open_recorder(writer: JournalWriter, room: Room | None = None) -> Recorder:
    """The recorder of a node: deciding actors, thinned, without the questions of onlookers."""
    return Recorder(
        writer,
        wants=is_journalled,
        thin=thin,
        is_idle=lambda message: isinstance(message, ProgressWanted),
        room=room,
    )


def is_journalled(name: ActorName) -> bool:
    """Whether this actor's decisions are kept: those that decide, not those that do."""
    return name.startswith(_JOURNALLED)


def is_rebuilt(name: ActorName) -> bool:
    """Whether this actor is rebuilt from its journal; the others start over."""
    return name.startswith(_REBUILT)


def thin(message: Message) -> Message:
    """Leave out what the journal holds elsewhere: the task's files, and what was just observed."""
    match message:
        case Configure(task=task) | Verify(task=task):
            return msgspec.structs.replace(message, task=_without_files(task))
        case Propose(state=state):
            observation = msgspec.structs.replace(state.observation, elements=(), frame=b"")
            return msgspec.structs.replace(
                message, state=msgspec.structs.replace(state, observation=observation)
            )
    return message


def read_pasts(journal: Path, only: ActorName | None = None) -> dict[ActorName, list[Record]]:
    """What each search, or the one named, needs to be rebuilt; the journal is read once.

    Kept is what it heard, what it was answered, and over what it crashed; of a search that has
    ended, how it ended and no more.

    Raises:
        JournalError: the journal is damaged.
    """
    pasts: dict[ActorName, list[Record]] = {}
    for record in read_live(journal):
        if record.kind == "said" or not is_rebuilt(record.actor):
            continue
        if only is not None and record.actor != only:
            continue
        if record.kind == "ended":
            pasts[record.actor] = [record]
            continue
        if record.actor in pasts and pasts[record.actor][0].kind == "ended":
            continue
        if record.kind == "answered" and _CRASHED not in bytes(record.envelope):
            record = msgspec.structs.replace(record, envelope=_NOTHING)
        pasts.setdefault(record.actor, []).append(record)
    return pasts


class RebuiltSearch(SearchActor):
    """A search that starts where its journal ends, exactly.

    What it asks on the way is answered from the journal; where that ends, by the live ledger.
    What it crashed over is not heard again, and the branch that it came from goes out again. One
    that had ended is not rebuilt: it refuses what still comes.

    Args:
        past: its entries so far.
        on_end: hears how the search ended, and again when that changes.
        on_crash: hears of a request that it crashed over while it was rebuilt.
    """

    def __init__(
        self,
        search: TaskSearch,
        ledger: Ref,
        past: Iterable[Entry],
        *,
        on_end: Callable[[Progress], Awaitable[None]] | None = None,
        on_crash: Callable[[Envelope[Message], ActorFailed], None] = lambda _request, _failed: None,
    ) -> None:
        super().__init__(search, ledger)
        self._live = ledger
        self._past = past
        self._on_end = on_end
        self._on_crash = on_crash
        self._ended: Progress | None = None
        """How it ended before this actor was made."""
        self._told: Progress | None = None

    async def start(self) -> None:
        """Hear again all that was heard."""
        turns, self._ended = _turns(self._past)
        self._past = ()
        self._told = self._ended
        for turn in turns:
            if turn.crashes:
                _log.warning("message.skipped", to=turn.heard.to, id=turn.heard.id)
                with _Watched(self._on_crash if turn is turns[-1] else None, turn.heard):
                    self._give_back(turn)
                continue
            self._ledger = _RecordedAnswers(iter(turn.answers), self._live)
            self.envelope = turn.heard
            with _Watched(None if turn.is_answered else self._on_crash, turn.heard):
                await self._hear(cast(SearchHeard, turn.heard.message))
        self._ledger = self._live
        await self._tell_end()

    def is_needless(self, message: SearchHeard) -> bool:
        """See `SearchActor`; once the search has ended, every tick is."""
        if self._ended is not None:
            return isinstance(message, Tick)
        return super().is_needless(message)

    async def hear(self, message: SearchHeard) -> Message | None:
        """Dispatch one message."""
        if self._ended is not None:
            return await self._hear_ended(self._ended, message)
        answer = await self._hear(message)
        await self._tell_end()
        return answer

    def _give_back(self, turn: _Turn) -> None:
        """Send a branch out again whose report crashed us: it will be told again, to no effect."""
        report = turn.heard.message
        if turn.crashes == 1 and isinstance(report, LeafReached | NodeReached):
            lost = LeafReached(
                branch_id=report.branch_id,
                task_id=report.task_id,
                lease=report.lease,
                kind=report.kind if isinstance(report, LeafReached) else "explore",
                reason="infra",
                verdict=None,
                steps=(),
                cost=BranchCost(),
                replay=ReplayCheck(),
                detail="the search crashed over its report",
                cause="desktop",
            )
            self._search.leaf_reached(lost, turn.heard.time_ns)

    async def _hear(self, message: SearchHeard) -> Message | None:
        if isinstance(message, Tick) and message.is_anew:
            now_ns = self.envelope.time_ns
            for lease in self._search.lent(now_ns):
                self._search.freed(lease.holder, now_ns)
            return None
        return await super().hear(message)

    async def _tell_end(self) -> None:
        if self._is_outcome_kept:
            ended = Progress(tasks=(self._search.progress(),), is_over=True)
            if ended != self._told:
                self._told = ended
                await self._tell(ended)

    async def _tell(self, ended: Progress) -> None:
        if self._on_end is not None:
            await self._on_end(ended)

    async def _hear_ended(self, ended: Progress, message: SearchHeard) -> Message | None:
        """Answer what comes after the end: there is nothing to do, and nothing is lent."""
        match message:
            case WorkWanted():
                return Idle(retry_ms=0, is_over=True)
            case ProgressWanted():
                return ended
            case (
                Renew(branch_id=branch_id, lease=lease)
                | NodeReached(branch_id=branch_id, lease=lease)
            ):
                return _over(branch_id, lease)
            case LeafReached(branch_id=branch_id, lease=lease):
                (task,) = ended.tasks
                task = msgspec.structs.replace(task, refused=task.refused + 1)
                self._ended = msgspec.structs.replace(ended, tasks=(task,))
                await self._tell(self._ended)
                return _over(branch_id, lease)
            case Tick():
                return None
            case _:
                return await super().hear(message)


class _Turn(msgspec.Struct, kw_only=True):
    """What was heard, and what came of it."""

    heard: Envelope[Message]
    answers: list[Message | EnvsError] = []
    """To what was asked over it, or why there was none."""
    is_answered: bool = False
    crashes: int = 0
    """How often it crashed the search: when it was heard, and when it was rebuilt."""


class _RecordedAnswers:
    """A reference that answers from the journal as long as it can."""

    def __init__(self, answers: Iterator[Message | EnvsError], live: Ref) -> None:
        self._answers = answers
        self._live = live

    @property
    def name(self) -> ActorName:
        """Whose answers these are."""
        return self._live.name

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """The recorded answer, or a live one."""
        answer = next(self._answers, None)
        if answer is None:
            return await self._live.ask(message, timeout_s=timeout_s)
        if isinstance(answer, EnvsError):
            raise answer
        return answer

    def tell(self, message: Message) -> None:
        """Nothing is told twice."""


class _Watched:
    """Tells of a request that crashes its actor while that is rebuilt, so that it is not again."""

    def __init__(
        self,
        on_crash: Callable[[Envelope[Message], ActorFailed], None] | None,
        request: Envelope[Message],
    ) -> None:
        self._on_crash = on_crash
        self._request = request

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on_crash is None or not isinstance(error, Exception):
            return
        if not isinstance(error, trio.Cancelled):
            self._on_crash(self._request, crash_of(self._request.to, error))


def _turns(past: Iterable[Entry]) -> tuple[list[_Turn], Progress | None]:
    """What is to be heard again, in order, or how it ended."""
    turns: list[_Turn] = []
    ended: Progress | None = None
    for entry in past:
        message = entry.envelope.message if entry.envelope is not None else None
        if entry.kind == "ended" and isinstance(message, Progress):
            ended = message
        elif entry.kind == "heard" and entry.envelope is not None:
            turns.append(_Turn(heard=cast(Envelope[Message], entry.envelope)))
        elif entry.kind == "received" and turns:
            turns[-1].answers.append(message or _missed(entry))
        elif entry.kind == "answered" and turns:
            turns[-1].is_answered = True
            turns[-1].crashes += isinstance(message, ActorFailed)
    return ([], ended) if ended is not None else (turns, None)


def _missed(entry: Entry) -> EnvsError:
    """What an actor got in place of an answer."""
    if entry.error == TIMEOUT:
        return AskTimeoutError("what it asked", "it", 0.0)
    return ActorCrashedError("what it asked", entry.error)


def _over(branch_id: BranchId, lease: int) -> LeaseLapsed:
    return LeaseLapsed(branch_id=branch_id, lease=lease, reason="the task's search has ended")


def _without_files(task: Task) -> Task:
    return msgspec.structs.replace(task, json=b"", files=())
