"""A process of this host, told apart from a later one of the same number."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process by its number and when it began."""

    pid: int
    start_ticks: int
    """Clock ticks from the host's start to the process's."""
    boot: str
    """Which start of the host that was."""

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has this number now.

        Raises:
            OSError: there is none.
        """
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        return cls(pid=pid, start_ticks=ticks, boot=_BOOT.read_text().strip())

    def is_alive(self) -> bool:
        """Whether it has not ended; one that only waits to be reaped has."""
        try:
            if Process.of(self.pid) != self:
                return False
            stat = Path(f"/proc/{self.pid}/stat").read_text(errors="replace")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"

    def kill(self, wait_s: float) -> bool:
        """Kill it, and wait until it has ended; False if it has not by then.

        Raises:
            PermissionError: it is somebody else's.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():  # the number is another's now, which the handle tells of
                return True
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(wait_s * 1000))
        except ProcessLookupError:
            return True
        finally:
            os.close(handle)


def processes_with(variable: str, values: frozenset[str]) -> Iterator[tuple[Process, str]]:
    """The living processes that were started with one of these values in their environment.

    Those whose environment is not ours to read are passed over.
    """
    wanted = {f"{variable}={value}".encode(): value for value in values}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            process = Process.of(int(name))
            entries = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in entries:
            if entry in wanted and process.is_alive():
                yield process, wanted[entry]
                break
