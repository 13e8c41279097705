"""Settling: waits until the picture stands still, and says how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

QUIET_MS = 100
QUIET_SLOW_MS = 650
"""LibreOffice repaints on timers: gaps of up to 601 ms were measured before a late change."""
CAP_MS = 3000
_POLL_S = 0.008
_CPU_TICK_MS, _CPU_SHARE = 10.0, 0.05
"""What resting programs may use: the kernel counts in ticks of 10 ms."""
_SLOW_CLASSES = ("libreoffice", "soffice")


Work: TypeAlias = tuple[float, bool]
"""Processor time used so far, in ms, and whether a program runs or waits for its turn."""


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


def wait_still(
    digest: Callable[[], str],
    quiet_ms: int,
    cap_ms: int = CAP_MS,
    work: Callable[[], Work] = lambda: (0.0, False),
) -> Stillness:
    """Wait until nothing has changed for `quiet_ms`, but no longer than `cap_ms`.

    Args:
        digest: the picture as it is now.
        work: what the desktop's programs do. A picture at rest is not believed while they work:
            on a loaded host a dialog may need longer than the quiet window for its first pixel.
    """
    start = changed = rested = time.monotonic()
    last, (used_ms, _) = digest(), work()
    while True:
        time.sleep(_POLL_S)
        now = time.monotonic()
        current = digest()
        if current != last:
            last, changed, rested = current, now, now
            used_ms, _ = work()
        waited_ms = round((now - start) * 1000)
        if (now - changed) * 1000 >= quiet_ms and (now - rested) * 1000 >= QUIET_MS:
            before_ms, (used_ms, is_running) = used_ms, work()
            allowed_ms = _CPU_TICK_MS + _CPU_SHARE * (now - rested) * 1000
            if not is_running and used_ms - before_ms <= allowed_ms:
                return Stillness(settled=True, settle_ms=waited_ms, frame=last)
            rested = now
        if waited_ms >= cap_ms:
            return Stillness(settled=False, settle_ms=waited_ms, frame=last)
