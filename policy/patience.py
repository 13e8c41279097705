"""How long to wait for what is away: twice as long each time it is missed, and never too long."""

from __future__ import annotations

_REST_MS, _REST_MS_MAX = 1_000, 30_000


def rest_ms(times: int) -> int:
    """How long to rest after so many failures in a row, from 1 s to 30 s; 0 after none."""
    if times <= 0:
        return 0
    return int(min(_REST_MS << min(times - 1, 10), _REST_MS_MAX))


def is_resting(until_ns: int, now_ns: int) -> bool:
    """Whether a rest lasts. One that ends later than any rest was set by a clock set back since."""
    return now_ns < until_ns <= now_ns + _REST_MS_MAX * 1_000_000


class Patience:
    """Whether something may be asked again after it was missed."""

    def __init__(self) -> None:
        self._missed = 0
        self._why = ""
        self._until_ns = 0

    @property
    def why(self) -> str:
        """Why it was missed the last time; empty once it has answered."""
        return self._why

    def rests(self, now_ns: int) -> bool:
        """Whether it is given time to come back."""
        return is_resting(self._until_ns, now_ns)

    def left_ms(self, now_ns: int) -> int:
        """How long that will last yet."""
        return (self._until_ns - now_ns) // 1_000_000 if self.rests(now_ns) else 0

    def missed(self, why: str, now_ns: int) -> None:
        """It did not answer. A rest that goes on is not made longer by those who asked before."""
        self._why = why
        if self.rests(now_ns):
            return
        self._missed += 1
        self._until_ns = now_ns + rest_ms(self._missed) * 1_000_000

    def answered(self) -> None:
        """It is there again."""
        self._missed = self._until_ns = 0
        self._why = ""
