"""When pictures may come, so that the ledger has time left for what matters more."""

from __future__ import annotations

_SHARE = 0.75
"""Of the ledger's time, what pictures may take."""
_FIRST_S = 0.005
_SPENT_MAX_S = 1.0
"""A write that took longer hung on the disk: it says nothing of the next."""
_WEIGHT = 0.1


class Turns:
    """Gives those who have pictures their turn, one after the other. Time is a number.

    Args:
        wait_max_s: whoever would have to wait longer gets no turn: it does not wait so long.
    """

    def __init__(self, wait_max_s: float) -> None:
        self._wait_max_s = wait_max_s
        self._write_s = _FIRST_S
        self._free_at_s = 0.0

    def give(self, pictures: int, now_s: float) -> float:
        """How long to wait before sending so many."""
        start_s = max(now_s, self._free_at_s)
        wait_s = start_s - now_s
        if wait_s <= self._wait_max_s:
            self._free_at_s = start_s + pictures * self._write_s / _SHARE
        return wait_s

    def took(self, spent_s: float) -> None:
        """Learn from a picture how long one takes."""
        self._write_s += _WEIGHT * (min(spent_s, _SPENT_MAX_S) - self._write_s)
