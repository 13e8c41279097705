"""What runs while the host has room for it: slots of desktops, and desktops that are warmed."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
import trio

from envs_node.actors.blocking import run_in_thread
from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.pool import Place, Pool
from envs_node.deploy.admission import Admission
from envs_node.deploy.health import Health
from envs_node.deploy.idleness import Idleness
from envs_node.messages.base import DesktopId
from envs_node.supervisor.tree import Supervisor

_AGAIN_S = 2.0
"""How long a refused desktop waits before it asks again."""
_LOOK_S = 0.1
_WATCH_S = 1.0
_REST_MAX_S = 30.0
_MARK = "admission"

_log = structlog.get_logger(__name__)


class Room:
    """The room of one node: lets its slots in, and makes them give way when memory is short."""

    def __init__(self, admission: Admission, health: Health, count: int) -> None:
        """For a node that is to drive so many desktops."""
        self.admission = admission
        self._health = health
        self._count = count
        self._running: dict[str, trio.CancelScope] = {}
        self._waiting: set[str] = set()
        self.caches: list[Callable[[], bool]] = []
        """Each gives something up that can be made again, in this order; whether it had any."""

    @property
    def is_full(self) -> bool:
        """Whether a slot waits to be let in: nobody else takes room then."""
        return bool(self._waiting)

    @asynccontextmanager
    async def entered(
        self, desktop_id: DesktopId, pid: Callable[[], int], refused: Callable[[], object]
    ) -> AsyncIterator[trio.CancelScope]:
        """Wait until there is room. The scope that it gives is cancelled when there is none left.

        Args:
            refused: called when it has to wait.
        """
        told = ""
        ask = functools.partial(self.admission.ask, desktop_id, pid)
        try:
            while lack := await run_in_thread(ask):
                self._waiting.add(desktop_id)
                running = len(self._running)
                words = f"{running} of {self._count} desktops run; no room for more: {lack}"
                self._health.desktop(desktop_id, "waiting", detail=lack)
                self._health.mark(_MARK, words, for_s=2 * _AGAIN_S + 1)
                if told != (limit := lack.partition(":")[0]):
                    _log.warning("desktop.refused", desktop_id=desktop_id, reason=lack)
                    told = limit
                refused()
                await trio.sleep(_AGAIN_S)
            self._waiting.discard(desktop_id)
            if told:
                self._health.clear(_MARK)
                _log.info("desktop.admitted", desktop_id=desktop_id)
            with trio.CancelScope() as scope:
                self._running[desktop_id] = scope
                yield scope
        finally:
            self._waiting.discard(desktop_id)
            self._running.pop(desktop_id, None)
            self.admission.release(desktop_id)

    async def watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Look after the memory: give up caches, then desktops, before the kernel takes some."""
        task_status.started()
        while True:
            await trio.sleep(_WATCH_S)
            if self.admission.is_pressed():
                await self._make_room()

    async def _make_room(self) -> None:
        for give_up in self.caches:
            if await run_in_thread(give_up):
                _log.warning("cache.emptied", reason="memory is short")
                return
        largest = await run_in_thread(self.admission.largest)
        if largest in self._running:
            _log.warning("desktop.stopped", desktop_id=largest, reason="memory is short")
            self._running[largest].cancel()


class AdmittedTree(Supervisor):
    """A supervisor whose children run while the host has room for them."""

    room: Room | None = None
    pid: Callable[[], int]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Supervisor.run`. It counts as started while it waits."""
        if self.room is None:
            await super().run(task_status=task_status)
            return
        once = _Once(task_status)
        is_over = False
        while not is_over:
            entering = self.room.entered(DesktopId(self.name), self.pid, once.started)
            async with entering as scope:
                await super().run(task_status=once)
            is_over = not scope.cancelled_caught


class _Once:
    """Says that it started, the first time only."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._status = task_status
        self._is_told = False

    def started(self, _value: None = None) -> None:
        if not self._is_told:
            self._is_told = True
            self._status.started()


class Warmer:
    """Keeps a desktop ready in one place: warms it when the host is idle, and watches over it."""

    def __init__(
        self,
        name: str,
        place: Place,
        pool: Pool,
        kind: DesktopKind,
        room: Room,
        *,
        idleness: Idleness | None = None,
    ) -> None:
        self._name = name
        self._place = place
        self._pool = pool
        self._kind = kind
        self._room = room
        self._idleness = idleness or Idleness()
        self._failures = 0

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Until cancelled; the desktop that stands ready then is destroyed."""
        task_status.started()
        try:
            while True:
                await trio.sleep(_LOOK_S)
                await self._look()
        finally:
            self._room.admission.release(self._name)
            with trio.CancelScope(shield=True):
                await run_in_thread(self._place.close)

    async def _look(self) -> None:
        is_idle = self._idleness.sample()
        if self._place.pid:
            lack = await run_in_thread(self._place.look)
            if lack:
                _log.warning("desktop.discarded", desktop_id=self._name, reason=lack)
            return
        self._room.admission.release(self._name)  # it is the slot's that took it
        if not is_idle or self._room.is_full:
            return
        ask = functools.partial(self._room.admission.ask, self._name, lambda: self._place.pid)
        if await run_in_thread(ask):
            await trio.sleep(_AGAIN_S)
            return
        try:
            await run_in_thread(lambda: self._place.fill(self._pool.fresh, self._kind))
        except (DesktopLostError, LauncherError) as error:
            _log.warning("desktop.unwarmed", desktop_id=self._name, error=str(error))
            await trio.sleep(min(_REST_MAX_S, 2.0**self._failures))
            self._failures += 1
        else:
            self._failures = 0
