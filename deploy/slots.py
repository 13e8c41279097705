"""The desktop role: a launcher, and slots of one desktop, verifier, replay and worker each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.replay.actor import ReplayActor
from envs_node.actors.replay.work import Slot, work
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import DesktopSettings
from envs_node.messages.base import ActorName, DesktopId, EnvsError
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tree import Supervisor

_KINDS = ("desktop", "verifier", "replay", "work")
_SLOT_INTENSITY = Intensity(burst=10, window_s=60.0)

_log = structlog.get_logger(__name__)


class LauncherEndedError(EnvsError):
    """The process that starts desktops has died, and all desktops with it."""


class Desktops:
    """What the desktop role is made of; one a node."""

    def __init__(
        self,
        post: Post,
        settings: DesktopSettings,
        checker: CheckerSource,
        *,
        node: str,
    ) -> None:
        self._post = post
        self._settings = settings
        self._checker = checker
        self._node = node
        self._launcher: Launcher | None = None
        self._has_died = False

    def child(self) -> ChildSpec:
        """The whole role: when the launcher dies, every desktop is started anew."""
        slots = [self._slot(number) for number in range(self._settings.count)]
        tree = Supervisor("slots", slots, intensity=_SLOT_INTENSITY, publish=tell_crash)
        supervisor = Supervisor(
            "desktops",
            [
                ChildSpec(name="launcher", start=self._run_launcher),
                ChildSpec(name="slots", start=tree.run, shutdown_s=15.0),
            ],
            strategy="rest_for_one",
            publish=tell_crash,
        )
        return ChildSpec(name="desktops", start=supervisor.run, shutdown_s=20.0)

    async def _run_launcher(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with Launcher() as launcher, _death_of(launcher.pid) as is_dead:
            self._launcher, self._has_died = launcher, False
            task_status.started()
            await trio.lowlevel.wait_readable(is_dead)
            self._has_died = True
        raise LauncherEndedError("the process that starts desktops has died")

    def _slot(self, number: int) -> ChildSpec:
        desktop_id = DesktopId(f"{self._node}-{number}")
        names = {kind: ActorName(f"{kind}/{desktop_id}") for kind in _KINDS}
        makes: dict[str, Callable[[], Actor[Any]]] = {
            "desktop": functools.partial(self._desktop, desktop_id),
            "verifier": self._verifier,
            "replay": functools.partial(self._replay, names, desktop_id),
        }
        children = [
            ChildSpec(name=kind, start=self._start(names[kind], make))
            for kind, make in makes.items()
        ]
        work_here = functools.partial(self._work, names, desktop_id)
        children.append(ChildSpec(name="work", start=work_here))
        tree = Supervisor(
            desktop_id,
            children,
            strategy="rest_for_one",
            intensity=_SLOT_INTENSITY,
            publish=tell_crash,
        )
        return ChildSpec(name=desktop_id, start=tree.run, shutdown_s=10.0)

    def _start(self, name: ActorName, make: Callable[[], Actor[Any]]) -> Start:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(make(), name, self._post, task_status=task_status)

        return start

    def _desktop(self, desktop_id: DesktopId) -> DesktopActor:
        assert self._launcher is not None, "slots start after the launcher"
        size = self._settings
        sandbox = Sandbox(self._launcher, width=size.width, height=size.height)
        return DesktopActor(desktop_id, sandbox)

    def _verifier(self) -> VerifierActor:
        return VerifierActor(Checker(self._checker))

    def _replay(self, names: dict[str, ActorName], desktop_id: DesktopId) -> ReplayActor:
        me = names["replay"]
        return ReplayActor(
            self._post.ref(names["desktop"], sender=me),
            self._post.ref(names["verifier"], sender=me),
            functools.partial(self._post.ref, sender=me),
            scheduler=ActorName("scheduler"),
            desktop_id=desktop_id,
        )

    async def _work(
        self,
        names: dict[str, ActorName],
        desktop_id: DesktopId,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        if self._has_died:  # and this slot is about to be stopped: draw no branch into that
            task_status.started()
            await trio.sleep_forever()
        me = names["work"]
        refs = functools.partial(self._post.ref, sender=me)
        slot = Slot(
            worker=me,
            desktop_id=desktop_id,
            replay=refs(names["replay"]),
            desktop=refs(names["desktop"]),
            scheduler=refs(ActorName("scheduler")),
            ledger=refs(ActorName("ledger")),
            refs=refs,
        )
        task_status.started()
        await work(slot)


def tell_crash(crashed: Crashed) -> None:
    """Log what a supervisor publishes."""
    _log.error("child.crashed", child=crashed.child, error=crashed.error, restarts=crashed.restarts)


@contextmanager
def _death_of(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process ends."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
