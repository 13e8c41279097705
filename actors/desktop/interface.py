"""What the actor of a desktop needs of the desktop: the sandbox offers it, and so do the fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from envs_node.messages.actions import Action
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task


class Forked(Protocol):
    """A clone, and what its origin saw: at the start and after each action up to here."""

    @property
    def seen(self) -> tuple[Observation, ...]:
        """The last is what the clone shows."""


class Desktop(Protocol):
    """A desktop as its actor needs it. Every method blocks and is called in a thread."""

    @property
    def guest_pid(self) -> int:
        """The desktop's first process, as this host counts."""

    def check(self, task: Task, branch: str = "") -> None:
        """Refuse a task that could not be set up; what follows is of this branch."""

    @property
    def can_fork(self) -> bool:
        """Whether it can be kept as it is, and be reset to where it was kept."""

    def reset(self, task: Task) -> Observation:
        """Start over on a fresh desktop."""

    def reset_forked(self, task: Task, prefix: Sequence[Action]) -> Forked | None:
        """Become a clone that stands behind some of these actions; None where there is none."""

    def keep_fork(self, key: str, seen: tuple[Observation, ...]) -> int:
        """Keep it as it is; returns the bytes that takes."""

    def act(self, action: Action) -> Observation:
        """Perform an action and look."""

    def observe(self) -> Observation:
        """Look."""

    def frame_png(self, digest: str) -> bytes | None:
        """The picture of a frame seen since the reset."""

    def close(self) -> None:
        """Destroy the desktop."""
