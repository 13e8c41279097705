"""Re-runs a run's journal: the same decisions, or the first of each actor that differs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import trio
import trio.testing

from envs_node.actors.base import Actor
from envs_node.actors.post import RefSource
from envs_node.actors.recorded import DecisionDiffers, ReplayCount, Watch, replay_actor
from envs_node.actors.replay.actor import ReplayActor
from envs_node.deploy.insides import BranchInsides, Insides, SearchInsides
from envs_node.deploy.journals import RebuiltSearch, thin
from envs_node.deploy.parts import make_search
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.base import ActorName, DesktopId, EnvsError, Message
from envs_node.messages.journal import Entry, read_journal
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.tasks import Task

_ResultT = TypeVar("_ResultT")


class ReplayError(EnvsError):
    """A journal that cannot be replayed: it names an actor or a task that the run does not have."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision of an actor that came out otherwise."""

    actor: str
    decision: int
    """Its number among the actor's decisions, from 0."""
    sequence: int
    """Of the entry that has it: position in the journal, from 0."""
    message: str
    """What was decided: the type of the message."""
    where: str
    """The first field that differs, and both values."""


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay covered and found."""

    run: str
    actors: int
    entries: int
    """Of the whole journal: their numbers are 0 to one less."""
    heard: int
    decisions: int
    damaged: int
    """Entries whose checksum does not match what they hold."""
    differences: tuple[Difference, ...]


class _History(msgspec.Struct, kw_only=True):
    """What the journal holds of one actor."""

    entries: list[Entry] = []
    sequences: list[int] = []
    """Where each entry stands in the journal, from 0, archives included."""


class RecordedRun:
    """A run's journal by actor, and fresh actors to live it again.

    Raises:
        JournalError: the journal is missing, or damaged beyond reading.
        ReplayError: it holds nothing.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        is_run = folder.is_run()
        self.tasks = {str(task.id): task for task in folder.load_tasks()} if is_run else {}
        self._settings = folder.manifest().config.search if is_run else SearchSettings()
        self.histories: dict[ActorName, _History] = {}
        self.length = 0
        for entry in read_journal(folder.journal, strict=False):
            history = self.histories.setdefault(entry.actor, _History())
            history.entries.append(entry)
            history.sequences.append(self.length)
            self.length += 1
        if not self.histories:
            raise ReplayError(f"{folder.journal} holds no entry: there is nothing to replay")

    def names(self, only: str = "") -> list[ActorName]:
        """All actors, or the one named.

        Raises:
            ReplayError: there is no such actor.
        """
        if not only:
            return list(self.histories)
        if only not in self.histories:
            known = ", ".join(sorted(self.histories))
            raise ReplayError(f"no actor {only} in {self.folder.journal}; there are: {known}")
        return [ActorName(only)]

    async def relive(
        self, name: ActorName, watch: Watch | None = None, insides: Insides | None = None
    ) -> ReplayCount:
        """Tell fresh actors what this one heard.

        Args:
            watch: hears of each entry as it is passed, and may end the replay there.
            insides: looks into the actor meanwhile.

        Raises:
            DecisionDiffers: at the first thing it says, or leaves unsaid, against the record.
            ReplayError: the run knows nothing of it.
        """
        entries = self.histories[name].entries
        make = self._maker(name, entries, insides)
        return await replay_actor(name, entries, make, thin=thin, watch=watch)

    def insides(self, name: ActorName) -> Insides:
        """What looks into a fresh actor of this name."""
        return SearchInsides() if name.startswith("search/") else BranchInsides()

    def difference(self, error: DecisionDiffers) -> Difference:
        """A difference as it is shown."""
        shown = error.recorded if error.recorded is not None else error.said
        return Difference(
            actor=error.actor,
            decision=error.index,
            sequence=self.histories[error.actor].sequences[error.place],
            message=type(shown).__name__,
            where=first_difference(error.recorded, error.said),
        )

    def _maker(
        self, name: ActorName, entries: list[Entry], insides: Insides | None
    ) -> Callable[[RefSource], Actor[Any]]:
        kind, _, rest = name.partition("/")
        if kind == "replay":
            return functools.partial(_make_replay, name)
        if kind == "search" and rest in self.tasks:
            looks = insides if isinstance(insides, SearchInsides) else None
            return _SearchMaker(name, entries, self.tasks[rest], self._settings, looks)
        raise ReplayError(f"the journal has an actor {name}, of which this run knows nothing")


async def replay_run(folder: RunFolder, only: str = "") -> ReplayReport:
    """Replay every journalled actor of a run or of a desktop node, or the one named.

    Raises:
        JournalError: the journal is missing, or damaged beyond reading.
        ReplayError: it does not belong to this run, or has no such actor.
    """
    run = RecordedRun(folder)
    names = run.names(only)
    heard = decisions = damaged = 0
    differences = []
    for name in names:
        damaged += sum(entry.is_damaged for entry in run.histories[name].entries)
        try:
            count = await run.relive(name)
        except DecisionDiffers as error:
            differences.append(run.difference(error))
        else:
            heard += count.heard
            decisions += count.decisions
    return ReplayReport(
        run=folder.run,
        actors=len(names),
        entries=run.length,
        heard=heard,
        decisions=decisions,
        damaged=damaged,
        differences=tuple(differences),
    )


def run_at_once(main: Callable[..., Awaitable[_ResultT]], *args: object) -> _ResultT:
    """Run a replay under a clock that jumps: where an actor waited, nothing waits now."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(main, *args, clock=clock)


def first_difference(recorded: Message | None, said: Message | None) -> str:
    """The first field in which two messages differ, and both its values."""
    shown = recorded if recorded is not None else said
    return _first_field(_plain(recorded), _plain(said), type(shown).__name__)


def _make_replay(name: ActorName, source: RefSource) -> ReplayActor:
    desktop_id = DesktopId(name.partition("/")[2])
    return ReplayActor(
        source.ref(ActorName(f"desktop/{desktop_id}"), sender=name),
        source.ref(ActorName(f"verifier/{desktop_id}"), sender=name),
        functools.partial(source.ref, sender=name),
        scheduler=ActorName("scheduler"),
        desktop_id=desktop_id,
    )


class _SearchMaker:
    """Makes the search of each life: it starts where the lives before it ended."""

    def __init__(
        self,
        name: ActorName,
        entries: list[Entry],
        task: Task,
        settings: SearchSettings,
        insides: SearchInsides | None,
    ) -> None:
        self._name = name
        self._entries = entries
        self._task = task
        self._settings = settings
        self._insides = insides
        self._starts = [i for i, entry in enumerate(entries) if entry.kind == "started"]

    def __call__(self, source: RefSource) -> RebuiltSearch:
        past = self._entries[: self._starts.pop(0)] if self._starts else []
        ledger = source.ref(ActorName("ledger"), sender=self._name)
        search = make_search(self._task, self._settings)
        if self._insides is not None:
            self._insides.begin(search)
        return RebuiltSearch(search, ledger, past)


def _plain(message: Message | None) -> Any:
    return None if message is None else msgspec.to_builtins(message)


def _first_field(recorded: Any, said: Any, path: str) -> str:
    """Walk two plain values to the first place where they differ."""
    if isinstance(recorded, dict) and isinstance(said, dict):
        for key in [*recorded, *(key for key in said if key not in recorded)]:
            if recorded.get(key) != said.get(key):
                return _first_field(recorded.get(key), said.get(key), f"{path}.{key}")
    if isinstance(recorded, list | tuple) and isinstance(said, list | tuple):
        for position, (old, new) in enumerate(zip(recorded, said, strict=False)):
            if old != new:
                return _first_field(old, new, f"{path}[{position}]")
        if len(recorded) != len(said):
            return f"{path}: recorded {len(recorded)} items, now {len(said)}"
    return f"{path}: recorded {_short(recorded)}, now {_short(said)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
