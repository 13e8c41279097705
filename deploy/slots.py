"""The desktop role: a launcher, and the slots of its desktops."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions, Pool
from envs_node.actors.desktop.recording import Films
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.starts import Starts
from envs_node.actors.post import Post
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.admission import Admission
from envs_node.deploy.admitted import Room, Warmer
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.estate import owner_label
from envs_node.deploy.forks import NodeForks
from envs_node.deploy.health import Health
from envs_node.deploy.slot import SLOT_INTENSITY, DesktopSlot, tell_crash
from envs_node.messages.base import DesktopId, EnvsError
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor


class LauncherEndedError(EnvsError):
    """The process that starts desktops has died, and all desktops with it."""

    def __init__(self, status: int) -> None:
        was_killed = status < 0
        how = f"was killed by signal {-status}" if was_killed else f"ended with status {status}"
        super().__init__(f"the process that starts desktops {how}")
        self.was_killed = was_killed


class Desktops:
    """What the desktop role is made of; one a node."""

    def __init__(
        self,
        post: Post,
        settings: DesktopSettings,
        checker: CheckerSource,
        *,
        node: str,
        health: Health | None = None,
        find_folder: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """Of one node.

        Args:
            find_folder: where films of branches go, when the settings ask for some.
        """
        self._post = post
        self._settings = settings
        self._checker = checker
        self._node = node
        self._health = health or Health()
        self._find_folder = find_folder if settings.record else lambda: None
        self._launcher: Launcher | None = None
        self._pool: Pool | None = None
        self._forks: NodeForks | None = None
        self._starts = Starts()
        self._sandboxes: dict[DesktopId, Sandbox] = {}
        admission = Admission(
            reserve_bytes=settings.memory_reserve_bytes, load_cpu_max=settings.load_cpu_max
        )
        self.room = Room(admission, self._health, settings.count)
        """Asked before a desktop starts; `room.admission.spare_bytes()` is what caches may take."""

    def child(self) -> ChildSpec:
        """The whole role: when the launcher dies, every desktop is started anew."""
        slots = [self._slot(number).child() for number in range(self._settings.count)]
        warmers = [self._warmer(number) for number in range(self._settings.warm)]
        tree = Supervisor(
            "slots", [*slots, *warmers], intensity=SLOT_INTENSITY, publish=self._publish
        )
        supervisor = Supervisor(
            "desktops",
            [
                ChildSpec(
                    name="launcher", start=self._run_launcher, is_preempted=_was_launcher_killed
                ),
                ChildSpec(name="room", start=self.room.watch),
                ChildSpec(name="forks", start=self._try_forks),
                ChildSpec(name="slots", start=tree.run, shutdown_s=15.0),
            ],
            strategy="rest_for_one",
            publish=self._publish,
        )
        return ChildSpec(name="desktops", start=supervisor.run, shutdown_s=20.0)

    async def _run_launcher(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with Launcher(label=owner_label()) as launcher, _death_of(launcher.pid) as is_dead:
            self._launcher = launcher
            self._pool = Pool(FreshSessions(launcher), self._settings.warm)
            spare_bytes = self.room.admission.spare_bytes
            self._forks = NodeForks(launcher, self._settings, spare_bytes)
            give_up = self._forks.store.give_up_oldest
            self.room.caches = [*(place.clear for place in self._pool.places), give_up]
            task_status.started()
            try:
                await trio.lowlevel.wait_readable(is_dead)
            finally:
                self._forks.store.close()
        raise LauncherEndedError(launcher.exit_status or 0)

    def _publish(self, crashed: Crashed) -> None:
        tell_crash(crashed)
        self._health.crashed(crashed)

    def _slot(self, number: int) -> DesktopSlot:
        desktop_id = DesktopId(f"{self._node}-{number}")
        return DesktopSlot(
            self._post,
            desktop_id,
            make_desktop=self._desktop,
            make_verifier=self._verifier,
            health=self._health,
            destroy_desktop=self._destroy,
            is_closing=self._is_closing,
            room=self.room,
            pid=functools.partial(self._pid, desktop_id),
        )

    async def _try_forks(self, *, task_status: trio.TaskStatus[None]) -> None:
        assert self._forks is not None, "they are made with the launcher"
        await self._forks.run(self._has_begun, task_status=task_status)

    def _has_begun(self) -> bool:
        return any(sandbox.is_begun for sandbox in self._sandboxes.values())

    def _warmer(self, number: int) -> ChildSpec:
        async def keep(*, task_status: trio.TaskStatus[None]) -> None:
            assert self._pool is not None, "warmers start after the launcher"
            name, place = f"{self._node}/warm-{number}", self._pool.places[number]
            warmer = Warmer(name, place, self._pool, self._settings.kind(), self.room)
            await warmer.run(task_status=task_status)

        return ChildSpec(name=f"warm-{number}", start=keep)

    def _pid(self, desktop_id: DesktopId) -> int:
        sandbox = self._sandboxes.get(desktop_id)
        return sandbox.living_pid if sandbox is not None else 0

    def _desktop(self, desktop_id: DesktopId) -> DesktopActor:
        assert self._launcher is not None, "slots start after the launcher"
        assert self._forks is not None, "they are made with the launcher"
        sandbox = ForkableSandbox(
            self._launcher,
            self._settings.kind(),
            self._forks.store,
            sessions=self._pool,
            starts=self._starts,
            allowed_hosts=self._settings.allowed_hosts,
        )
        sandbox.films = Films(self._find_folder, os.environ | owner_label())
        self._sandboxes[desktop_id] = sandbox
        return DesktopActor(desktop_id, sandbox)

    def _destroy(self, desktop_id: DesktopId) -> None:
        if desktop_id in self._sandboxes:
            self._sandboxes[desktop_id].kill()

    def _is_closing(self) -> bool:
        """Whether all desktops are gone: then nothing that a slot does or suffers counts."""
        return self._launcher is None or self._launcher.exit_status is not None

    def _verifier(self, _desktop_id: DesktopId) -> VerifierActor:
        assert self._launcher is not None, "slots start after the launcher"
        launcher = self._launcher
        return VerifierActor(
            Checker(self._checker, label=owner_label()),
            loss=lambda guest_pid: launcher.group(guest_pid).memory_loss(),
        )


def _was_launcher_killed(error: BaseException) -> bool:
    """By the host, or by somebody: not a fault of its own that would come again."""
    return isinstance(error, LauncherEndedError) and error.was_killed


@contextmanager
def _death_of(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process ends."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
