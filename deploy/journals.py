"""What is journalled of a run, and how an actor is rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec

from envs_node.actors.mailbox import Ref
from envs_node.actors.recorder import Recorder
from envs_node.actors.search.actor import SearchActor, SearchHeard
from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.desktop import Configure
from envs_node.messages.journal import Entry, JournalWriter, read_journal
from envs_node.messages.propose import Propose
from envs_node.messages.search import ProgressWanted
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verify
from envs_node.policy.task_search import TaskSearch

_JOURNALLED = ("search/", "replay/")


def open_recorder(writer: JournalWriter) -> Recorder:
    """The recorder of a node: deciding actors, thinned, without the questions of onlookers."""
    return Recorder(
        writer,
        wants=is_journalled,
        thin=thin,
        is_idle=lambda message: isinstance(message, ProgressWanted),
    )


def is_journalled(name: ActorName) -> bool:
    """Whether this actor's decisions are kept: those that decide, not those that do."""
    return name.startswith(_JOURNALLED)


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


def entries_of(actor: ActorName, journal: Path, *, strict: bool = True) -> Iterator[Entry]:
    """The entries of one actor, in order; none when there is no journal yet."""
    if not any(journal.glob("*.journal")):
        return
    for entry in read_journal(journal, strict=strict):
        if entry.actor == actor:
            yield entry


class RebuiltSearch(SearchActor):
    """A search that starts where its journal ends, exactly.

    What it asks on the way is answered from the journal; where that ends, by the live ledger.
    """

    def __init__(self, search: TaskSearch, ledger: Ref, past: Sequence[Entry]) -> None:
        super().__init__(search, ledger)
        self._live = ledger
        self._past = past

    async def start(self) -> None:
        """Hear again all that was heard."""
        answers = [e.envelope.message for e in self._past if e.kind == "received" and e.envelope]
        self._ledger = _RecordedAnswers(iter(answers), self._live)
        for entry in self._past:
            if entry.kind == "heard" and entry.envelope is not None:
                self.envelope = cast(Envelope[Message], entry.envelope)
                await self.hear(cast(SearchHeard, entry.envelope.message))
        self._ledger = self._live
        self._past = ()


class _RecordedAnswers:
    """A reference that answers from the journal as long as it can."""

    def __init__(self, answers: Iterator[Message], live: Ref) -> None:
        self._answers = answers
        self._live = live

    @property
    def name(self) -> ActorName:
        """Whose answers these are."""
        return self._live.name

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """The recorded answer, or a live one."""
        answer = next(self._answers, None)
        return answer if answer is not None else await self._live.ask(message, timeout_s=timeout_s)

    def tell(self, message: Message) -> None:
        """Nothing is told twice."""


def _without_files(task: Task) -> Task:
    return msgspec.structs.replace(task, json=b"", files=())
