"""What a supervisor is told of a child: data, and the callable that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec
import trio

Restart: TypeAlias = Literal["always", "on_crash", "never"]


class Start(Protocol):
    """Runs a child until it is done, crashes or is cancelled."""

    async def __call__(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Call `task_status.started()` when the child can be used."""


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a child, and what to do when it ends."""

    name: str
    """Unique among its siblings, stable across restarts."""
    start: Start
    restart: Restart = "always"
    """`on_crash` lets a child that ended by itself rest; `never` lets a crashed one rest too."""
    shutdown_s: float = 5.0
    """How long it may take to end after `ask_stop`, before it is cancelled."""
    ask_stop: Callable[[], None] | None = None
    """Asks the child to end by itself; without it, stopping begins with cancelling."""
