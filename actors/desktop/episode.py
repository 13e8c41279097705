"""One episode of a desktop: what it was asked and answered, from its reset on."""

from __future__ import annotations

import math
from collections import deque

from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.messages.actions import Action
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    ForkKept,
    ForkRefused,
    KeepFork,
    Observation,
    ResetDone,
)
from envs_node.messages.tasks import Task

_RESETS_KEPT = 500
_SHARES = {"p50": 0.5, "p95": 0.95}


class Episode:
    """Remembers every answer, so that what is asked twice is done once."""

    def __init__(self, task: Task, done: ResetDone, prefix: tuple[Action, ...]) -> None:
        """Begin behind as many actions of the prefix as a clone stands behind."""
        self._task = task
        self._actions = list(prefix[: done.forked_steps])
        self._seen = [*done.seen, done.observation]
        self._first = done.forked_steps
        self._acted: dict[int, Acted | ActFailed] = {}
        self._kept: dict[int, ForkKept | ForkRefused] = {}
        self.number = done.episode

    @property
    def seen(self) -> tuple[Observation, ...]:
        """At the start, and after each action."""
        return tuple(self._seen)

    def key(self) -> str:
        """The name of the state it is in."""
        return prefix_keys(self._task, self._actions)[-1]

    def refusal(self, message: Act | KeepFork) -> str:
        """Why this is not of the episode that runs, or not of the step it is at."""
        depth = self._first + len(self._acted)
        if message.episode != self.number:
            return f"episode {message.episode} is not the one that runs"
        if message.step != depth:
            return f"step {message.step} comes after step {depth}"
        if isinstance(message, Act) and message.frame and not self._has_shown(message.frame):
            return f"frame {message.frame} is not of this episode: decide on one that is"
        if isinstance(message, KeepFork) and len(self._actions) != depth:
            return "an action was refused on the way: where it stands has no name"
        return ""

    def _has_shown(self, frame: str) -> bool:
        return any(seen.signature.frame == frame for seen in self._seen)

    def answer_to(self, act: Act) -> Acted | ActFailed | None:
        """What was answered to this before."""
        return self._acted.get(act.step) if act.episode == self.number else None

    def acted(self, act: Act, answer: Acted | ActFailed) -> Acted | ActFailed:
        """An action was performed, or refused."""
        self._acted[act.step] = answer
        if isinstance(answer, Acted):
            self._actions.append(act.action)
            self._seen.append(answer.observation)
        return answer

    def fork_at(self, wish: KeepFork) -> ForkKept | ForkRefused | None:
        """What was answered to this before."""
        return self._kept.get(wish.step) if wish.episode == self.number else None

    def forked(self, answer: ForkKept | ForkRefused) -> ForkKept | ForkRefused:
        """It was kept, or was not."""
        self._kept[answer.step] = answer
        return answer


class ResetTimes:
    """How long the last resets took: from the request to the first frame of the task's start."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_RESETS_KEPT)

    def add(self, reset_ms: int) -> int:
        """One more; returned as it is."""
        self._last.append(reset_ms)
        return reset_ms

    def statistics(self) -> dict[str, int | float]:
        """The middle one, and the one that 95 % are not above; nothing before the first."""
        times = sorted(self._last)
        if not times:
            return {}
        at = {name: math.ceil(share * len(times)) - 1 for name, share in _SHARES.items()}
        return {f"reset_ms_{name}": times[place] for name, place in at.items()}
