"""The head role: a run's ledger, scheduler and searches, and their journal."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
import trio

from envs_node import __version__
from envs_node.actors.base import Actor
from envs_node.actors.head.actor import Standing
from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, MailboxFullError
from envs_node.actors.post import Post
from envs_node.actors.room import Room
from envs_node.actors.scheduler.actor import SchedulerActor
from envs_node.deploy.config import Config
from envs_node.deploy.journals import RebuiltSearch
from envs_node.deploy.parts import HeadParts
from envs_node.deploy.run_folder import RunFolder, find_unfinished, write_json
from envs_node.deploy.run_journal import RunJournal
from envs_node.deploy.slot import tell_crash
from envs_node.deploy.summary import Summary, summarise_search
from envs_node.messages.base import ActorName, EnvsError, TaskId
from envs_node.messages.journal import JournalError
from envs_node.messages.lifecycle import Crashed, SearchSettings, StartRun
from envs_node.messages.search import Progress, ProgressWanted, Tick
from envs_node.messages.tasks import Task
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

_STANDING_S = 2.0

_log = structlog.get_logger(__name__)


class RunRefusedError(EnvsError):
    """A run that cannot be started now."""


class HeadRuns:
    """Starts and stops the one run that a head has on.

    Args:
        supervisor: takes the run's tree as a child.
        extra: children that live and die with a run, such as this node's own desktops.
        parts: what it needs of the world; the real things unless given.
        publish: told of every crash of an actor of the run.
    """

    def __init__(
        self,
        post: Post,
        supervisor: Supervisor,
        *,
        root: Path,
        config: Config,
        policy: str,
        checker: str,
        extra: Callable[[], list[ChildSpec]] = list,
        parts: HeadParts | None = None,
        publish: Callable[[Crashed], None] = tell_crash,
    ) -> None:
        self._post = post
        self._supervisor = supervisor
        self._root = root
        self._config = config
        self._policy = policy
        self._checker = checker
        self._extra = extra
        self._parts = parts or HeadParts()
        self._publish = publish
        self._folder: RunFolder | None = None
        self._journal: RunJournal | None = None

    async def start(self, request: StartRun) -> None:
        """Start a run, or go on with one. Resuming the run that is on changes nothing.

        Raises:
            EnvsError: another run is on, its folder or journal cannot be used, or it would go on
                otherwise than it began.
        """
        try:
            await self._start(request)
        except OSError as error:  # a full disk, say, is no reason for a head to crash
            raise RunRefusedError(f"the run {request.run} cannot be kept: {error}") from error

    async def _start(self, request: StartRun) -> None:
        await self._stop_what_is_over()
        if await self._parts.run_blocking(functools.partial(self._is_begun, request)):
            request = msgspec.structs.replace(request, tasks=(), is_resumed=True)
        if self._folder is not None:
            if request.is_resumed and request.run == self._folder.run:
                return
            raise RunRefusedError(
                f"the run {self._folder.run} is on; wait until it is over, or restart the head"
            )
        folder = await self._parts.run_blocking(functools.partial(self._open_folder, request))
        tasks = {task.id: task for task in folder.load_tasks()}
        journal = await self._parts.run_blocking(functools.partial(self._open_journal, folder))
        try:
            if request.is_resumed and request.is_forced:  # now that nobody else has it on
                config = folder.manifest().config
                folder.change_config(msgspec.structs.replace(config, search=request.settings))
            folder.reopen()
            children = self._children(folder, journal, tasks, is_resumed=request.is_resumed)
        except (EnvsError, OSError):
            journal.abandon()
            raise
        self._folder, self._journal = folder, journal
        self._post.go_on_from(journal.last_ns())
        self._post.recorder = journal.recorder
        tree = Supervisor(
            request.run,
            children,
            chance=self._parts.chance(),
            publish=self._publish,
        )
        _log.info("run.started", run=request.run, tasks=len(tasks), resumed=request.is_resumed)
        await self._bring_up(
            ChildSpec(name=_child_name(request.run), start=tree.run, shutdown_s=30.0), journal.room
        )

    async def _bring_up(self, spec: ChildSpec, room: Room) -> None:
        """Wait until the run has started, or waits for room: others must be heard meanwhile."""

        async def leave(nursery: trio.Nursery) -> None:
            await room.wait_paused()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave, nursery)
            await self._supervisor.start_child(spec)
            nursery.cancel_scope.cancel()

    async def resume_last(self) -> None:
        """Go on with the run that was on when this head died, if one was.

        Raises:
            EnvsError: see `start`.
        """
        find = functools.partial(find_unfinished, self._root, has_policy=bool(self._policy))
        folder = await self._parts.run_blocking(find)
        if folder is not None:
            settings = folder.manifest().config.search
            request = StartRun(run=folder.run, tasks=(), settings=settings, is_resumed=True)
            await self.start(request)

    def path(self) -> Path | None:
        """The folder of the run that is on."""
        return None if self._folder is None else self._folder.path

    def why_paused(self) -> str:
        """Why the run does not go on, and the way out; empty while it does."""
        return "" if self._journal is None else self._journal.room.why_paused()

    async def stop(self, run: str) -> None:
        """Stop a run and write its summary."""
        folder, journal = self._folder, self._journal
        if folder is None or journal is None or folder.run != run:
            return
        progress = await self._progress()
        await self._supervisor.stop_child(_child_name(run))
        self._post.recorder = None
        await journal.close()
        self._folder = self._journal = None
        try:
            _mark_stopped(folder, progress)
        except OSError as error:  # it counts as one that died: nothing of it is lost
            _log.warning("run.unmarked", run=run, why=str(error))
        _log.info("run.stopped", run=run)

    async def standing(self) -> Standing:
        """How the run stands; a scheduler that is busy is not waited for long."""
        if self._folder is None:
            return Standing()
        progress = await self._progress(with_leases=True, timeout_s=_STANDING_S)
        return Standing(run=self._folder.run, progress=progress, paused=self.why_paused())

    async def _stop_what_is_over(self) -> None:
        """Close a run whose client has gone away before its end."""
        progress = await self._progress() if self._folder is not None else None
        if self._folder is not None and progress is not None and progress.is_over:
            await self.stop(self._folder.run)

    def _is_begun(self, request: StartRun) -> bool:
        """Whether a head has begun this very request before, and died before it could say so."""
        folder = RunFolder(self._root / Path(request.run).name)
        is_again = bool(request.request_id) and not request.is_resumed and folder.is_run()
        return is_again and folder.manifest().request_id == request.request_id

    def _open_folder(self, request: StartRun) -> RunFolder:
        if Path(request.run).name != request.run or request.run in ("", ".."):
            raise RunRefusedError(f"{request.run!r} is no name of a run: it must be one file name")
        path = self._root / request.run
        if request.is_resumed:
            return self._reopen_folder(path, request)
        try:
            tasks = tuple(msgspec.msgpack.decode(data, type=Task) for data in request.tasks)
        except msgspec.DecodeError as error:
            raise RunRefusedError(f"a task of {request.run} cannot be read: {error}") from error
        config = msgspec.structs.replace(self._config, search=request.settings)
        return RunFolder.create(
            path,
            config=config,
            tasks=tasks,
            policy=self._policy,
            checker=self._checker,
            kind="eval" if request.settings.rollouts else "search",
            request_id=request.request_id,
        )

    def _reopen_folder(self, path: Path, request: StartRun) -> RunFolder:
        folder = RunFolder.open(path)
        if not request.is_forced:
            folder.require_same(policy=self._policy, checker=self._checker)
        return folder

    def _open_journal(self, folder: RunFolder) -> RunJournal:
        free_bytes_min = self._config.journal.free_bytes_min
        journal = RunJournal(folder.journal, free_bytes_min, self._parts)
        try:
            journal.read()
        except (JournalError, OSError):
            journal.abandon()
            raise
        return journal

    def _children(
        self,
        folder: RunFolder,
        journal: RunJournal,
        tasks: dict[TaskId, Task],
        *,
        is_resumed: bool,
    ) -> list[ChildSpec]:
        settings = folder.manifest().config.search
        own = self._extra()
        searches = {
            task_id: self._post.ref(_search(task_id), sender=ActorName("scheduler"))
            for task_id in tasks
        }
        scheduler = functools.partial(
            SchedulerActor, searches, tasks, run=folder.run, room=journal.room
        )
        ledger = functools.partial(
            LedgerActor,
            functools.partial(self._parts.open_store, folder.ledger),
            run_blocking=self._parts.run_blocking,
            room=journal.room,
        )
        clock = _Clock(self._post, journal, tuple(tasks), is_anew=is_resumed and bool(own))
        end = functools.partial(self._end_search, folder, journal, frozenset(tasks))
        return [
            self._actor(ActorName("ledger"), ledger),
            *(self._search(journal, task, settings, end) for task in tasks.values()),
            self._actor(ActorName("scheduler"), scheduler),
            ChildSpec(name="clock", start=functools.partial(clock.run, settings.lease_ms / 4000)),
            ChildSpec(name="archive", start=journal.keep_compact),
            *own,
        ]

    def _actor(self, name: ActorName, make: Callable[[], Actor[Any]]) -> ChildSpec:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(make(), name, self._post, task_status=task_status)

        evict = functools.partial(self._post.evict, name)
        return ChildSpec(name=name, start=start, destroy=evict)

    def _search(
        self,
        journal: RunJournal,
        task: Task,
        settings: SearchSettings,
        end: Callable[[TaskId, Progress], Awaitable[None]],
    ) -> ChildSpec:
        name = _search(task.id)

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            actor = RebuiltSearch(
                self._parts.make_search(task, settings),
                self._post.ref(ActorName("ledger"), sender=name),
                await journal.past_of(name),
                on_end=functools.partial(end, task.id),
                on_crash=journal.skip,
            )
            await run_actor(actor, name, self._post, task_status=task_status)

        evict = functools.partial(self._post.evict, name)
        return ChildSpec(name=name, start=start, destroy=evict)

    async def _end_search(
        self,
        folder: RunFolder,
        journal: RunJournal,
        tasks: frozenset[TaskId],
        task_id: TaskId,
        progress: Progress,
    ) -> None:
        """A search has ended; with the last of them the run is over, whoever watches it."""
        await journal.end(self._post, _search(task_id), progress)
        if all(journal.has_ended(_search(task)) for task in tasks):
            await journal.room.keep(functools.partial(folder.end, is_over=True, why="all is done"))

    async def _progress(
        self, *, with_leases: bool = False, timeout_s: float = 10.0
    ) -> Progress | None:
        scheduler = self._post.ref(ActorName("scheduler"), sender=ActorName("head"))
        wanted = ProgressWanted(with_leases=with_leases)
        try:
            answer = await scheduler.ask(wanted, timeout_s=timeout_s)
        except (AskTimeoutError, ActorCrashedError):
            return None
        return answer if isinstance(answer, Progress) else None


class _Clock:
    """Tells every search that goes on that time has passed, so that leases lapse unasked."""

    def __init__(
        self, post: Post, journal: RunJournal, tasks: tuple[TaskId, ...], *, is_anew: bool
    ) -> None:
        self._refs = {
            _search(task): post.ref(_search(task), sender=ActorName("clock")) for task in tasks
        }
        self._journal = journal
        self._is_anew = is_anew
        """Whether those who held branches died with the process that the run was on in."""

    async def run(
        self,
        tick_s: float,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tick. A child of a supervisor, before those who ask for work."""
        if self._is_anew:
            self._is_anew = False
            self._tick(Tick(is_anew=True))
        task_status.started()
        while True:
            await trio.sleep(tick_s)
            await self._journal.room.wait()  # while all pause, somebody must look for room
            self._tick(Tick())

    def _tick(self, tick: Tick) -> None:
        for name, ref in self._refs.items():
            if self._journal.has_ended(name):
                continue
            try:
                ref.tell(tick)
            except MailboxFullError:
                _log.warning("tick.dropped", to=name)


def _mark_stopped(folder: RunFolder, progress: Progress | None) -> None:
    is_over = progress is not None and progress.is_over
    folder.end(is_over=is_over, why="all is done" if is_over else "it was stopped")
    if progress is not None:
        write_json(folder.progress, progress)
        if folder.manifest().kind == "search":
            found = summarise_search(progress, progress.desktops)
            write_json(folder.summary, Summary(run=folder.run, version=__version__, search=found))


def _search(task_id: TaskId) -> ActorName:
    return ActorName(f"search/{task_id}")


def _child_name(run: str) -> str:
    return f"run/{run}"
