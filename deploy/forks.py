"""The fork points of one node: tried out at its start, and given up when memory is short."""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from envs_node.actors.blocking import run_in_thread
from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.selftest import try_fork
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.criu import NEEDS_ROOT, find_criu

_LOOK_S = 0.2
_LOOKS_MAX = 100
"""So often to look for the first desktop, before its processors are taken for a try."""

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
        self, has_desktop: Callable[[], bool], *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Try a fork once, beside the desktops, as soon as the first of them runs.

        Until then, and if it fails, none is offered. Runs until cancelled.
        """
        task_status.started()
        if self._settings.fork != "off":
            for _ in range(_LOOKS_MAX):
                if has_desktop():
                    break
                await trio.sleep(_LOOK_S)
            await run_in_thread(self._try)
        await trio.sleep_forever()

    def _try(self) -> None:
        criu, why = find_criu()
        if criu is None:
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
