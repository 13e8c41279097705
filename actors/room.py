"""Whether there is room on the disk; where there is none, whoever would write waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
import trio

from envs_node.messages.journal_format import DISK_FULL

CHECK_S = 1.0

_log = structlog.get_logger(__name__)


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run leaves on the disk."""

    free_bytes_min: int = 256 * 1024 * 1024
    """With less than this free the run pauses until there is room; 0 pauses when writes fail."""


class Room:
    """The free space below a folder. While there is too little, everybody pauses.

    Args:
        free_bytes_min: less than this pauses.
        free_bytes: asks the file system; blocks no longer than a look at it.
        is_short: another reason to pause, such as a journal that has used its reserve up. It is
            asked at every look, and may make room itself.
    """

    def __init__(
        self,
        folder: Path,
        free_bytes_min: int,
        *,
        free_bytes: Callable[[Path], int],
        is_short: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder = folder
        self._free_bytes_min = free_bytes_min
        self._free_bytes = free_bytes
        self._is_short = is_short
        self._looked_s = -CHECK_S
        self._failing_until_s = 0.0
        self._paused = ""
        self._pausing = trio.Event()
        self._pauses = 0

    def why_paused(self) -> str:
        """What is waited for, and the way out; empty while there is room."""
        return self._paused

    def statistics(self) -> dict[str, int]:
        """How often it paused."""
        return {"pauses": self._pauses}

    async def wait(self) -> None:
        """Return when there is room.

        Looks at the disk at most once a second; another reason to pause counts at once.
        """
        is_looked_at = trio.current_time() - self._looked_s < CHECK_S
        if is_looked_at and not self._paused and not self._is_short():
            return
        await self._find_room()

    async def wait_paused(self) -> None:
        """Return when all pause."""
        await self._pausing.wait()

    async def wait_after(self, reason: str) -> None:
        """Somebody's write found no room: all pause; return when it may be tried again.

        The others go on once no write has failed for three looks.
        """
        self._pause(reason)
        while True:
            self._failing_until_s = trio.current_time() + 3 * CHECK_S
            await trio.sleep(CHECK_S)
            if self._free_bytes(self._folder) >= self._free_bytes_min:
                return

    async def keep(self, write: Callable[[], None]) -> None:
        """Write a small file, as soon as the disk takes it."""
        while True:
            try:
                write()
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                await self.wait_after(str(error))
            else:
                return

    async def _find_room(self) -> None:
        while True:
            if self._look():
                return
            await trio.sleep(CHECK_S)

    def _look(self) -> bool:
        """Whether there is room now."""
        self._looked_s = trio.current_time()
        free_bytes = self._free_bytes(self._folder)
        if free_bytes < self._free_bytes_min:
            self._pause(f"{free_bytes} bytes are free, {self._free_bytes_min} are wanted")
            return False
        if self._is_short():
            self._pause(f"the disk takes no more, though it says that {free_bytes} bytes are free")
            return False
        if self._looked_s < self._failing_until_s:
            return False
        if self._paused:
            self._paused = ""
            self._pausing = trio.Event()
            _log.info("run.resumed", path=str(self._folder), free_bytes=free_bytes)
        return True

    def _pause(self, reason: str) -> None:
        is_new = not self._paused
        self._paused = f"paused: {reason} at {self._folder}; make room there and it goes on"
        if is_new:
            self._pauses += 1
            self._pausing.set()
            _log.warning(
                "run.paused",
                path=str(self._folder),
                free_bytes=self._free_bytes(self._folder),
                free_bytes_min=self._free_bytes_min,
                why=self._paused,
            )
