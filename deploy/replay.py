"""Re-runs a run's journal: the same decisions, or the first of each actor that differs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from envs_node.actors.base import Actor
from envs_node.actors.post import RefSource
from envs_node.actors.recorded import DecisionDiffers, replay_actor
from envs_node.actors.replay.actor import ReplayActor
from envs_node.deploy.journals import RebuiltSearch, thin
from envs_node.deploy.parts import make_search
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.base import ActorName, DesktopId, EnvsError, Message
from envs_node.messages.journal import Entry, read_journal
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.tasks import Task


class ReplayError(EnvsError):
    """A journal that cannot be replayed: it names an actor or a task that the run does not have."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision of an actor that came out otherwise."""

    actor: str
    decision: int
    """Its number among the actor's decisions, from 0."""
    message: str
    """What was decided: the type of the message."""
    where: str
    """The first field that differs, and both values."""


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay covered and found."""

    run: str
    actors: int
    heard: int
    decisions: int
    damaged: int
    """Entries whose checksum does not match what they hold."""
    differences: tuple[Difference, ...]


async def replay_run(folder: RunFolder, only: str = "") -> ReplayReport:
    """Replay every journalled actor of a run or of a desktop node, or the one named.

    Raises:
        JournalError: the journal is missing, or damaged beyond reading.
        ReplayError: it does not belong to this run, or has no such actor.
    """
    is_run = folder.is_run()
    tasks = {task.id: task for task in folder.load_tasks()} if is_run else {}
    settings = folder.manifest().config.search if is_run else SearchSettings()
    histories = _by_actor(folder.journal)
    if not histories:
        raise ReplayError(f"{folder.journal} holds no entry: there is nothing to replay")
    if only and only not in histories:
        known = ", ".join(sorted(histories)) or "none"
        raise ReplayError(f"no actor {only} in {folder.journal}; there are: {known}")
    heard = decisions = damaged = 0
    differences = []
    for name, entries in histories.items():
        if only and name != only:
            continue
        damaged += sum(entry.is_damaged for entry in entries)
        make = _maker(name, entries, tasks, settings)
        try:
            count = await replay_actor(name, entries, make, thin=thin)
        except DecisionDiffers as error:
            differences.append(_difference(error))
        else:
            heard += count.heard
            decisions += count.decisions
    return ReplayReport(
        run=folder.run,
        actors=1 if only else len(histories),
        heard=heard,
        decisions=decisions,
        damaged=damaged,
        differences=tuple(differences),
    )


def _by_actor(journal: Path) -> dict[ActorName, list[Entry]]:
    histories: dict[ActorName, list[Entry]] = {}
    for entry in read_journal(journal, strict=False):
        histories.setdefault(entry.actor, []).append(entry)
    return histories


def _maker(
    name: ActorName, entries: list[Entry], tasks: dict[Any, Task], settings: SearchSettings
) -> Callable[[RefSource], Actor[Any]]:
    kind, _, rest = name.partition("/")
    if kind == "replay":
        return functools.partial(_make_replay, name)
    if kind == "search" and rest in tasks:
        return _SearchMaker(name, entries, tasks[rest], settings)
    raise ReplayError(f"the journal has an actor {name}, of which this run knows nothing")


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
        self, name: ActorName, entries: list[Entry], task: Task, settings: SearchSettings
    ) -> None:
        self._name = name
        self._entries = entries
        self._task = task
        self._settings = settings
        self._starts = [i for i, entry in enumerate(entries) if entry.kind == "started"]

    def __call__(self, source: RefSource) -> RebuiltSearch:
        past = self._entries[: self._starts.pop(0)] if self._starts else []
        ledger = source.ref(ActorName("ledger"), sender=self._name)
        return RebuiltSearch(make_search(self._task, self._settings), ledger, past)


def _difference(error: DecisionDiffers) -> Difference:
    shown = error.recorded if error.recorded is not None else error.said
    return Difference(
        actor=error.actor,
        decision=error.index,
        message=type(shown).__name__,
        where=_first_field(_plain(error.recorded), _plain(error.said), type(shown).__name__),
    )


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
