"""Settling: waits until the picture stands still, and says how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

QUIET_MS = 100
QUIET_SLOW_MS = 650
"""LibreOffice repaints on timers: gaps of up to 601 ms were measured before a late change."""
CAP_MS = 3000
_POLL_S = 0.008
_SLOW_CLASSES = ("libreoffice", "soffice")


class Stillness(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait for a still picture ended."""

    settled: bool
    settle_ms: int
    frame: str
    """Digest of the last picture seen."""


def quiet_window_ms(app_classes: Iterable[str]) -> int:
    """How long the picture must stand still, given the window classes on the screen."""
    is_slow = any(slow in name.lower() for name in app_classes for slow in _SLOW_CLASSES)
    return QUIET_SLOW_MS if is_slow else QUIET_MS


def wait_still(digest: Callable[[], str], quiet_ms: int, cap_ms: int = CAP_MS) -> Stillness:
    """Wait until the digest has not changed for `quiet_ms`, but no longer than `cap_ms`."""
    start = changed = time.monotonic()
    last = digest()
    while True:
        time.sleep(_POLL_S)
        now = time.monotonic()
        current = digest()
        if current != last:
            last, changed = current, now
        waited_ms = round((now - start) * 1000)
        if (now - changed) * 1000 >= quiet_ms:
            return Stillness(settled=True, settle_ms=waited_ms, frame=last)
        if waited_ms >= cap_ms:
            return Stillness(settled=False, settle_ms=waited_ms, frame=last)
