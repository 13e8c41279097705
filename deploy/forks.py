"""The fork points of one node: tried out at its start, and given up when memory is short."""

from __future__ import annotations

import os
from collections.abc import Callable

import structlog
import trio

from envs_node.actors.blocking import run_in_thread
from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.selftest import try_fork
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import Session
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.criu import NEEDS_ROOT, Criu, find_criu

_LOOK_S = 0.2

_log = structlog.get_logger(__name__)


class NodeForks:
    """The store that the desktops of one launcher share, and what decides whether it is used.

    Args:
        spare_bytes: the memory that may be taken for what can be made again.
    """

    def __init__(
        self, launcher: Launcher, settings: DesktopSettings, spare_bytes: Callable[[], int]
    ) -> None:
        self._launcher = launcher
        self._settings = settings
        self._forker = Forker(launcher, ())
        self.store = ForkStore(
            self._forker, bytes_max=settings.fork_bytes_max, available_bytes=spare_bytes
        )

    async def run(
        self, has_begun: Callable[[], bool], *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Try a fork once, never beside the start of the first desktop.

        Until then, and if it fails, none is offered. Runs until cancelled.

        Args:
            has_begun: whether a desktop stands at its task's start.
        """
        task_status.started()
        if self._settings.fork != "off":
            while not has_begun():  # noqa: ASYNC110 - nobody tells
                await trio.sleep(_LOOK_S)
            await run_in_thread(self._try)
        await trio.sleep_forever()

    def _try(self) -> None:
        criu, why = find_criu()
        if criu is None:
            if why == NEEDS_ROOT and self._settings.fork == "auto":
                _log.info("fork.unoffered", reason=why)  # as it is meant to be
                return
            mend = "envs-node criu install" if why != NEEDS_ROOT else "run as root"
            _log.warning("fork.unoffered", reason=why, mend=mend)
            return
        self._forker.criu = criu.command
        if self._settings.fork == "auto":
            tried = try_fork(self._launcher, self._settings.kind(), self._forker)
            if tried.reason:
                _log.warning("fork.unoffered", reason=tried.reason, wall_ms=tried.wall_ms)
                return
            _log.info("fork.offered", criu=criu.version, wall_ms=tried.wall_ms)
        self.store.is_offered = True


def try_criu(criu: Criu) -> str:
    """What is wrong with a CRIU, tried on a desktop; empty if nothing is, or none can be had."""
    if os.geteuid() != 0:
        return ""  # desktops are forked as root alone
    kind = DesktopKind()
    with Launcher() as launcher:
        try:
            Session(launcher, kind).close()
        except (LauncherError, DesktopLostError):
            return ""  # which is not CRIU's fault
        return try_fork(launcher, kind, Forker(launcher, criu.command)).reason
