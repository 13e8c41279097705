"""What is counted against a supervisor's children, and the words for it when it is too much."""

from __future__ import annotations

import traceback
from random import Random

import msgspec

from envs_node.messages.base import EnvsError
from envs_node.supervisor.intensity import Intensity, backoff_s, is_spent

_TRACE_CHARS_MAX = 8000
_LEAVES_MAX = 3


class SupervisorError(EnvsError):
    """Children crashed more often than may be answered by a restart.

    Its text names the child at the bottom and the first of its errors, however many supervisors
    have given up on the way.
    """

    def __init__(self, path: str, cause: str, *, crashes: int, within_s: float) -> None:
        super().__init__(
            f"{path} crashed {crashes} times within {within_s:g} s, first with {cause}; mend "
            f"that and start again: every `child.crashed` in the log tells one of them"
        )
        self.path = path
        self.cause = cause
        self.crashes = crashes
        self.within_s = within_s


class _End(msgspec.Struct, frozen=True):
    """An end of a child that was answered by a restart, or was one too many."""

    at_s: float
    child: str
    path: str
    """Who was the first to crash, from this child downwards."""
    cause: str
    crashes: int
    """At the bottom; 0 when this is the bottom."""
    within_s: float


class Tally:
    """The ends of a supervisor's children within the window, by whose fault they were."""

    def __init__(self, supervisor: str, intensity: Intensity) -> None:
        self._supervisor = supervisor
        self._intensity = intensity
        self._ends: dict[bool, list[_End]] = {False: [], True: []}
        self._restarts = {False: 0, True: 0}

    def count(
        self,
        child: str,
        error: BaseException | None,
        now_s: float,
        chance: Random,
        *,
        is_preempted: bool,
    ) -> float | None:
        """Count an end. How long to wait before the restart, or None: it is one too many."""
        since_s = now_s - self._intensity.window_s
        ends = [end for end in self._ends[is_preempted] if end.at_s > since_s]
        ends.append(_end(child, error, now_s))
        self._ends[is_preempted] = ends
        times = tuple(end.at_s for end in ends)
        if is_spent(times, now_s, self._intensity, is_preempted=is_preempted):
            return None
        self._restarts[is_preempted] += 1
        own = sum(end.child == child for end in ends)
        return backoff_s(own, self._intensity, chance)

    def forget(self) -> None:
        """Hold nothing against anybody any more; the numbers of restarts stay."""
        self._ends = {False: [], True: []}

    def failure(self, *, is_preempted: bool) -> SupervisorError:
        """The error of having given up over the ends of this kind."""
        ends = self._ends[is_preempted]
        first = ends[0]
        return SupervisorError(
            f"{self._supervisor}/{first.path}",
            first.cause,
            crashes=first.crashes or len(ends),
            within_s=first.within_s or self._intensity.window_s,
        )

    def restarts(self) -> dict[str, int]:
        """Restarts so far, and how many of them were not the child's fault."""
        return {
            "restarts": sum(self._restarts.values()),
            "restarts_preempted": self._restarts[True],
        }


def describe(error: BaseException | None) -> str:
    """An error in one line; what came out of nurseries is named, not the nurseries."""
    if error is None:
        return "an end that was not asked for"
    leaves = _leaves(error)
    words = [_words(leaf) for leaf in leaves[:_LEAVES_MAX]]
    more = len(leaves) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more else "")


def trace(error: BaseException) -> str:
    """The end of an error's traceback, where it was raised."""
    try:
        return "".join(traceback.format_exception(error))[-_TRACE_CHARS_MAX:]
    except Exception:  # noqa: BLE001  an error may be broken in every way
        return ""


def _end(child: str, error: BaseException | None, at_s: float) -> _End:
    leaves = [] if error is None else _leaves(error)
    for leaf in leaves:
        if isinstance(leaf, SupervisorError):
            path = f"{child}/{leaf.path}" if leaf.path.split("/")[0] != child else leaf.path
            return _End(at_s, child, path, leaf.cause, leaf.crashes, leaf.within_s)
    return _End(at_s, child, child, describe(error), 0, 0.0)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  even its words may be broken
        return type(error).__name__
