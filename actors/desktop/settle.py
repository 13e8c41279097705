"""Settling: waits until the picture stands still, and says how long that took.

How long the picture must stand still depends on who draws it (`quiet.py`). Some blink for ever, as
LibreOffice's frame around a selected text does. Of a picture that only alternates between two the
same one counts each time: that with the smaller digest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from envs_node.actors.desktop.quiet import Quiet

REST_MS = 100
"""How long the programs must be at rest, whatever draws the picture."""
_POLL_S = 0.008
_MARGIN = 1.5
"""How much longer than the last look the next one may take."""
_CPU_TICK_MS, _CPU_SHARE = 10.0, 0.05
"""What resting programs may use: the kernel counts in ticks of 10 ms."""

_BLINKS, _BLINKS_MS = 4, 600
"""A picture blinks when its last so many frames are two in turns, seen for so long."""

Work: TypeAlias = tuple[float, bool]
"""Processor time used so far, in ms, and whether a program runs or waits for its turn."""


_FIRST_LOOK_MS = 250.0
"""What is expected before the first look: as long as LibreOffice takes."""


class Stillness(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait for a still picture ended."""

    settled: bool
    settle_ms: int
    frame: str
    """Digest of the last picture seen."""
    quiet: Quiet = Quiet()
    """The window that was waited for."""
    blinks: bool = False
    """Whether it alternates with another one for ever."""
    looked: bool = False
    """Whether the look that was given was taken of this very picture."""


class Settling:
    """Decides from what is seen whether a picture is still. Knows no clock.

    Args:
        frame: digest of the picture at `now_ms`, when the wait begins.
        used_ms: processor time that the programs had used by then.
    """

    def __init__(self, now_ms: float, frame: str, used_ms: float) -> None:
        self.frame = frame
        self.changed_ms = self._rested_ms = now_ms
        self._used_ms = used_ms
        self._last = [(now_ms, frame)]

    def see(self, now_ms: float, frame: str, work: Callable[[], Work]) -> None:
        """Take in the picture as it is at `now_ms`."""
        if frame != self.frame:
            self.frame, self.changed_ms = frame, now_ms
            self._last = [*self._last[1 - _BLINKS :], (now_ms, frame)]
            self.rest(now_ms, work)

    def rest(self, now_ms: float, work: Callable[[], Work]) -> None:
        """Begin to watch the programs anew."""
        self._rested_ms = now_ms
        self._used_ms, _ = work()

    @property
    def blinks(self) -> bool:
        """Whether two pictures take turns."""
        frames = [frame for _, frame in self._last]
        is_in_turns = len(frames) == _BLINKS and frames[:2] == frames[2:]
        return is_in_turns and self._last[-1][0] - self._last[0][0] >= _BLINKS_MS

    @property
    def same_since_ms(self) -> float:
        """Since when nothing has changed but what blinks."""
        return self._last[0][0] if self.blinks else self._last[-1][0]

    def defer(self, lost_ms: float) -> None:
        """Leave so long out of the time for which nothing has changed."""
        self.changed_ms += lost_ms

    def is_still(self, now_ms: float, quiet_ms: float, work: Callable[[], Work]) -> bool:
        """Whether nothing has changed for `quiet_ms`, and the programs are at rest."""
        rest_ms = now_ms - self._rested_ms
        is_turn = self.blinks and self.frame == min(frame for _, frame in self._last)
        if rest_ms < REST_MS or not (is_turn or now_ms - self.changed_ms >= quiet_ms):
            return False
        used_ms, is_running = work()
        if not is_running and used_ms - self._used_ms <= _CPU_TICK_MS + _CPU_SHARE * rest_ms:
            return True
        self._rested_ms, self._used_ms = now_ms, used_ms
        return False


class Look:
    """Something to do once the picture rests, while the remainder of the quiet window passes.

    Reading LibreOffice's element list takes a quarter of a second; so it costs no time of its own.
    """

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self._change_ms: float | None = None
        self.took_ms = _FIRST_LOOK_MS

    def begin(self) -> None:
        """Forget what was done in the last wait."""
        self._change_ms = None

    def is_valid(self, settling: Settling) -> bool:
        """Whether it was done since the picture last changed."""
        return self._change_ms is not None and self._change_ms >= settling.same_since_ms

    def is_due(self, now_ms: float, quiet_ms: int, settling: Settling) -> bool:
        """Whether it fits in now, so that it ends before the programs' rest must begin."""
        lead_ms = REST_MS + _MARGIN * self.took_ms
        since_ms = now_ms - settling.changed_ms
        fits = quiet_ms > 2 * REST_MS and since_ms >= max(REST_MS, quiet_ms - lead_ms)
        return fits and not self.is_valid(settling)

    def take(self, settling: Settling) -> None:
        """Do it, and note for which picture."""
        start_s = time.monotonic()
        self._change_ms = settling.same_since_ms
        self._do()
        self.took_ms = (time.monotonic() - start_s) * 1000


def wait_still(
    digest: Callable[[], str],
    find_quiet: Callable[[], Quiet],
    work: Callable[[], Work] = lambda: (0.0, False),
    look: Look | None = None,
) -> Stillness:
    """Wait until nothing has changed for as long as who draws it needs.

    Args:
        digest: the picture as it is now.
        find_quiet: how long it must stand still. Asked again when the picture has changed: an
            application that has come up meanwhile may need longer.
        work: what the desktop's programs do. A picture at rest is not believed while they work:
            on a loaded host a dialog may need longer than the quiet window for its first pixel.
        look: what to do meanwhile. Whether it was, and since the last change, is told.
    """
    start_s = time.monotonic()

    def elapsed_ms() -> float:
        return (time.monotonic() - start_s) * 1000

    frame = digest()
    settling = Settling(elapsed_ms(), frame, work()[0])
    quiet, asked_for = find_quiet(), settling.frame
    if look is not None:
        look.begin()
    while True:
        time.sleep(_POLL_S)
        asked_ms = elapsed_ms()
        # Before the picture is asked for: on a busy host whoever answered still waits to sleep.
        is_resting = settling.is_still(asked_ms, quiet.quiet_ms, work)
        rested = settling.frame
        frame = digest()
        settling.see(elapsed_ms(), frame, work)
        if settling.frame != asked_for:
            quiet, asked_for = find_quiet(), settling.frame
        # What was drawn while we looked came before the end of the look, and may have missed it.
        is_still = is_resting and settling.frame == rested
        if is_still or asked_ms >= quiet.cap_ms:
            return Stillness(
                settled=is_still, settle_ms=round(asked_ms), frame=settling.frame, quiet=quiet,
                blinks=settling.blinks, looked=look is not None and look.is_valid(settling),
            )  # fmt: skip
        if look is not None and look.is_due(asked_ms, quiet.quiet_ms, settling):
            look.take(settling)
            if quiet.is_shy:
                settling.defer(look.took_ms)
            frame = digest()
            settling.see(elapsed_ms(), frame, work)
            settling.rest(elapsed_ms(), work)  # it has made the applications work
