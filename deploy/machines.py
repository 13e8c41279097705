"""The desktop role where desktops are other machines: a slot for each, and nothing on this host."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from envs_node.actors.desktop.actor import RESET_TIMEOUT_S, DesktopActor
from envs_node.actors.desktop.remote.address import parse_address
from envs_node.actors.desktop.remote.desktop import RemoteDesktop
from envs_node.actors.desktop.remote.machine import TOKEN_VARIABLE, Machine, RevertCommand
from envs_node.actors.post import Post
from envs_node.actors.replay.asking import Deadlines
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.actors.verifier.checker import Checker, Door
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.estate import owner_label
from envs_node.deploy.health import Health
from envs_node.deploy.slot import SLOT_INTENSITY, DesktopSlot, tell_crash
from envs_node.deploy.slots import Desktops
from envs_node.messages.base import DesktopId
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

_MARGIN_S = 30.0


class DesktopRole(Protocol):
    """What offers the desktops of a node."""

    def child(self) -> ChildSpec:
        """All of it, under one supervisor."""


def make_desktops(
    post: Post,
    settings: DesktopSettings,
    checker: CheckerSource,
    *,
    node: str,
    health: Health | None = None,
    find_folder: Callable[[], Path | None] = lambda: None,
) -> DesktopRole:
    """The desktops of a node, of the backend that is set."""
    if settings.backend == "osworld-http":
        return Machines(post, settings, checker, node=node, health=health)
    return Desktops(post, settings, checker, node=node, health=health, find_folder=find_folder)


class Machines:
    """The desktop role over machines that somebody else keeps; one a node."""

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
        self._health = health or Health()
        self._desktops: dict[DesktopId, RemoteDesktop] = {}
        token = os.environ.get(TOKEN_VARIABLE, "")
        self._machines = {
            DesktopId(f"{node}-{number}"): Machine(
                parse_address(address),
                token=token,
                renews=self._reverting(),
                ready_timeout_s=settings.renew_timeout_s,
            )
            for number, address in enumerate(settings.machines)
        }

    def child(self) -> ChildSpec:
        """The whole role: a machine that fails is taken anew, beside the others."""
        supervisor = Supervisor(
            "desktops",
            [self._slot(desktop_id).child() for desktop_id in self._machines],
            intensity=SLOT_INTENSITY,
            publish=self._publish,
        )
        return ChildSpec(name="desktops", start=supervisor.run, shutdown_s=20.0)

    def _reverting(self) -> RevertCommand | None:
        settings = self._settings
        if not settings.revert_command:
            return None
        return RevertCommand(settings.revert_command, timeout_s=settings.renew_timeout_s)

    def _slot(self, desktop_id: DesktopId) -> DesktopSlot:
        return DesktopSlot(
            self._post,
            desktop_id,
            make_desktop=self._desktop,
            make_verifier=self._verifier,
            health=self._health,
            destroy_desktop=self._destroy,
            deadlines=Deadlines(reset_s=self._reset_s() + _MARGIN_S),
        )

    def _reset_s(self) -> float:
        """Reverted, up again, and set up."""
        return 2 * self._settings.renew_timeout_s + RESET_TIMEOUT_S

    def _desktop(self, desktop_id: DesktopId) -> DesktopActor:
        settings = self._settings
        desktop = RemoteDesktop(
            self._machines[desktop_id], width=settings.width, height=settings.height
        )
        self._desktops[desktop_id] = desktop
        return DesktopActor(desktop_id, desktop, reset_timeout_s=self._reset_s())

    def _destroy(self, desktop_id: DesktopId) -> None:
        if desktop_id in self._desktops:
            self._desktops[desktop_id].kill()

    def _verifier(self, desktop_id: DesktopId) -> VerifierActor:
        machine = self._machines[desktop_id]
        return VerifierActor(
            Checker(self._checker, label=owner_label(), find_door=partial(_door, machine))
        )

    def _publish(self, crashed: Crashed) -> None:
        tell_crash(crashed)
        self._health.crashed(crashed)


def _door(machine: Machine) -> Door:
    return Door(machine.address.host, machine.address.port, machine.token)
