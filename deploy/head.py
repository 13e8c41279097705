"""The head role: a run's ledger, scheduler and searches, and their journal."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
from envs_node.actors.scheduler.actor import SchedulerActor
from envs_node.deploy.config import Config
from envs_node.deploy.journals import RebuiltSearch, entries_of, open_recorder
from envs_node.deploy.parts import HeadParts
from envs_node.deploy.run_folder import RunFolder, write_json
from envs_node.deploy.slot import tell_crash
from envs_node.deploy.summary import Summary, summarise_search
from envs_node.messages.base import ActorName, EnvsError, TaskId
from envs_node.messages.journal import JournalWriter
from envs_node.messages.lifecycle import SearchSettings, StartRun
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
    ) -> None:
        self._post = post
        self._supervisor = supervisor
        self._root = root
        self._config = config
        self._policy = policy
        self._checker = checker
        self._extra = extra
        self._parts = parts or HeadParts()
        self._folder: RunFolder | None = None
        self._writer: JournalWriter | None = None

    async def start(self, request: StartRun) -> None:
        """Start a run.

        Raises:
            EnvsError: another run is on, or its folder or journal cannot be used.
        """
        await self._stop_what_is_over()
        if self._folder is not None:
            raise RunRefusedError(
                f"the run {self._folder.run} is on; wait until it is over, or restart the head"
            )
        folder = await self._parts.run_blocking(functools.partial(self._open_folder, request))
        tasks = {task.id: task for task in folder.load_tasks()}
        self._writer = self._parts.open_journal(folder.journal)
        self._folder = folder
        self._post.recorder = open_recorder(self._writer)
        tree = Supervisor(
            request.run,
            self._children(folder, tasks, request.settings),
            chance=self._parts.chance(),
            publish=tell_crash,
        )
        _log.info("run.started", run=request.run, tasks=len(tasks), resumed=request.is_resumed)
        await self._supervisor.start_child(
            ChildSpec(name=_child_name(request.run), start=tree.run, shutdown_s=30.0)
        )

    async def stop(self, run: str) -> None:
        """Stop a run and write its summary."""
        folder, writer = self._folder, self._writer
        if folder is None or writer is None or folder.run != run:
            return
        progress = await self._progress()
        await self._supervisor.stop_child(_child_name(run))
        self._post.recorder = None
        writer.close()
        self._folder = self._writer = None
        if progress is not None:
            write_json(folder.path / "progress.json", progress)
            if folder.manifest().kind == "search":
                found = summarise_search(progress, progress.desktops)
                write_json(folder.summary, Summary(run=run, version=__version__, search=found))
        _log.info("run.stopped", run=run)

    async def standing(self) -> Standing:
        """How the run stands; a scheduler that is busy is not waited for long."""
        if self._folder is None:
            return Standing()
        progress = await self._progress(with_leases=True, timeout_s=_STANDING_S)
        return Standing(run=self._folder.run, progress=progress)

    async def _stop_what_is_over(self) -> None:
        """Close a run whose client has gone away before its end."""
        progress = await self._progress() if self._folder is not None else None
        if self._folder is not None and progress is not None and progress.is_over:
            await self.stop(self._folder.run)

    def _open_folder(self, request: StartRun) -> RunFolder:
        if Path(request.run).name != request.run or request.run in ("", ".."):
            raise RunRefusedError(f"{request.run!r} is no name of a run: it must be one file name")
        path = self._root / request.run
        if request.is_resumed:
            return RunFolder.open(path)
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
        )

    def _children(
        self, folder: RunFolder, tasks: dict[TaskId, Task], settings: SearchSettings
    ) -> list[ChildSpec]:
        searches = {
            task_id: self._post.ref(_search(task_id), sender=ActorName("scheduler"))
            for task_id in tasks
        }
        scheduler = functools.partial(SchedulerActor, searches, tasks, run=folder.run)
        ledger = functools.partial(
            LedgerActor,
            functools.partial(self._parts.open_store, folder.ledger),
            run_blocking=self._parts.run_blocking,
        )
        return [
            self._actor(ActorName("ledger"), ledger),
            *(self._search(folder, task, settings) for task in tasks.values()),
            self._actor(ActorName("scheduler"), scheduler),
            ChildSpec(
                name="clock",
                start=functools.partial(self._keep_time, tuple(tasks), settings.lease_ms / 4000),
            ),
            *self._extra(),
        ]

    def _actor(self, name: ActorName, make: Callable[[], Actor[Any]]) -> ChildSpec:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(make(), name, self._post, task_status=task_status)

        return ChildSpec(name=name, start=start)

    def _search(self, folder: RunFolder, task: Task, settings: SearchSettings) -> ChildSpec:
        name = _search(task.id)

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            ledger = self._post.ref(ActorName("ledger"), sender=name)
            past = list(entries_of(name, folder.journal))
            actor = RebuiltSearch(self._parts.make_search(task, settings), ledger, past)
            await run_actor(actor, name, self._post, task_status=task_status)

        return ChildSpec(name=name, start=start)

    async def _keep_time(
        self,
        tasks: tuple[TaskId, ...],
        tick_s: float,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tell every search that time has passed, so that leases lapse when nobody asks."""
        refs = [self._post.ref(_search(task), sender=ActorName("clock")) for task in tasks]
        task_status.started()
        while True:
            await trio.sleep(tick_s)
            for ref in refs:
                try:
                    ref.tell(Tick())
                except MailboxFullError:
                    _log.warning("tick.dropped", to=ref.name)

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


def _search(task_id: TaskId) -> ActorName:
    return ActorName(f"search/{task_id}")


def _child_name(run: str) -> str:
    return f"run/{run}"
