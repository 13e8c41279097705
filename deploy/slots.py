"""The desktop role: a launcher, and the slots of its desktops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.post import Post
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.health import Health
from envs_node.deploy.slot import SLOT_INTENSITY, DesktopSlot, tell_crash
from envs_node.messages.base import DesktopId, EnvsError
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor


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
        health: Health | None = None,
    ) -> None:
        self._post = post
        self._settings = settings
        self._checker = checker
        self._node = node
        self._health = health or Health()
        self._launcher: Launcher | None = None
        self._has_died = False

    def child(self) -> ChildSpec:
        """The whole role: when the launcher dies, every desktop is started anew."""
        slots = [self._slot(number).child() for number in range(self._settings.count)]
        tree = Supervisor("slots", slots, intensity=SLOT_INTENSITY, publish=self._publish)
        supervisor = Supervisor(
            "desktops",
            [
                ChildSpec(name="launcher", start=self._run_launcher),
                ChildSpec(name="slots", start=tree.run, shutdown_s=15.0),
            ],
            strategy="rest_for_one",
            publish=self._publish,
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

    def _publish(self, crashed: Crashed) -> None:
        tell_crash(crashed)
        self._health.crashed(crashed)

    def _slot(self, number: int) -> DesktopSlot:
        return DesktopSlot(
            self._post,
            DesktopId(f"{self._node}-{number}"),
            make_desktop=self._desktop,
            make_verifier=self._verifier,
            health=self._health,
            is_closing=lambda: self._has_died,
        )

    def _desktop(self, desktop_id: DesktopId) -> DesktopActor:
        assert self._launcher is not None, "slots start after the launcher"
        size = self._settings
        sandbox = Sandbox(self._launcher, width=size.width, height=size.height)
        return DesktopActor(desktop_id, sandbox)

    def _verifier(self, _desktop_id: DesktopId) -> VerifierActor:
        return VerifierActor(Checker(self._checker))


@contextmanager
def _death_of(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process ends."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
