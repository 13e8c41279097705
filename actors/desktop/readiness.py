"""Readiness: when what was launched is there, with a window or without one.

No launch is waited for by time. A program that means to open a window does so, works for it, or
talks to the X server; a server, or one that handed its work to another program and ended, does
none of these once everything is at rest. On a crowded host rest must last longer, for who waits
for a processor looks like it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from envs_node.actors.desktop.settle import Stillness, Work
from envs_node.actors.desktop.xserver import Window

READY_TIMEOUT_S = 60.0
REST_S = 0.7
"""How long all must rest before a program counts as one without a window."""
REST_CLIENT_S = 10.0
"""The same for one that has opened a connection to the X server: it may wait for another."""
_CROWD_MAX = 10.0
_SHARE, _TICK_MS = 0.05, 20.0
"""What resting programs may use of a processor; the kernel counts in ticks of 10 ms."""
_STILLS_MAX = 16


class Watched(Protocol):
    """The desktop as a launch watches it."""

    def windows(self) -> tuple[Window, ...]:
        """The top-level windows."""

    def wait_still(self) -> Stillness:
        """Wait until the picture is still."""

    def work(self) -> Work:
        """Processor time of its programs, and whether one runs."""

    def clients(self) -> int:
        """How many connections its X server has."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """How a launch came to its end."""

    how: Literal["window", "ended", "resting"]
    """A new window stands still; or there is none, and the program has ended or sleeps."""
    ready_ms: int
    window_ms: int = 0
    """When the first window was there."""


class NotReadyError(Exception):
    """What was launched has failed, or never came to rest."""


class Launch:
    """Remembers how a desktop was before a launch, and then waits for what it brings."""

    def __init__(self, desktop: Watched) -> None:
        self._desktop = desktop
        self._windows = {window.id for window in desktop.windows()}
        self._clients = desktop.clients()
        self._start = time.monotonic()

    def wait(self, returncode: Callable[[], int | None]) -> Readiness:
        """Wait until the launched program is there.

        Args:
            returncode: how the program that was started has ended; None while it runs.

        Raises:
            NotReadyError: it ended with an error and opened no window, or nothing came to rest.
        """
        rest = _Rest(self._desktop)
        while True:
            if self._new_windows():
                window_ms = self._elapsed_ms()
                self._wait_picture()
                return Readiness(how="window", window_ms=window_ms, ready_ms=self._elapsed_ms())
            clients = self._desktop.clients()
            self._clients = min(self._clients, clients)  # one that leaves hides none that comes
            is_client = clients > self._clients
            rested_s = rest.watch()
            if rested_s >= (REST_CLIENT_S if is_client else REST_S * _crowd()):
                status = returncode()
                if status:
                    raise NotReadyError(f"ended with {status} and opened no window")
                how: Literal["ended", "resting"] = "resting" if status is None else "ended"
                return Readiness(how=how, ready_ms=self._elapsed_ms())
            if self._elapsed_ms() > READY_TIMEOUT_S * 1000:
                raise NotReadyError(f"no new window, and no rest, within {READY_TIMEOUT_S:g} s")

    def _wait_picture(self) -> None:
        """Wait until the picture is the same after two waits for stillness in a row.

        A start pauses longer than an action does: between an empty window and its content, say.
        """
        last = ""
        for _ in range(_STILLS_MAX):
            stillness = self._desktop.wait_still()
            is_splash = any(window.is_splash for window in self._desktop.windows())
            if stillness.settled and stillness.frame == last and not is_splash:
                return
            last = stillness.frame

    def _new_windows(self) -> Collection[Window]:
        """What an application has opened since. A splash screen belongs to no class, or says so."""
        return [
            window for window in self._desktop.windows()
            if window.id not in self._windows and window.app_class and not window.is_splash
        ]  # fmt: skip

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._start) * 1000)


class _Rest:
    """For how long neither the picture has changed nor a program has worked."""

    def __init__(self, desktop: Watched) -> None:
        self._desktop = desktop
        self._since = self._looked = time.monotonic()
        self._frame = ""
        self._used_ms, _ = desktop.work()

    def watch(self) -> float:
        """Look on until the picture is still; the seconds of rest so far."""
        stillness = self._desktop.wait_still()
        used_ms, _ = self._desktop.work()
        now = time.monotonic()
        allowed_ms = _TICK_MS + _SHARE / _crowd() * (now - self._looked) * 1000
        is_same = stillness.settled and stillness.frame == self._frame
        if not is_same or used_ms - self._used_ms > allowed_ms:
            self._since = now
        self._looked, self._frame, self._used_ms = now, stillness.frame, used_ms
        return now - self._since


def _crowd() -> float:
    """How many programs of this host want each processor: what works gets so much less of one.

    Among forty others a program that starts looks like one at rest.
    """
    wanting = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
    return min(max(wanting / (os.cpu_count() or 1), 1.0), _CROWD_MAX)
