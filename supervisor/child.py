"""What a supervisor is told of a child: data, and the callables that run and end it."""

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
    is_preempted: Callable[[BaseException], bool] | None = None
    """Whether an error is no fault of the child's: what it stands on went away from under it. It
    is then restarted as after any crash, and counted apart."""
    shutdown_s: float = 5.0
    """How long it may take to end after `ask_stop`, before it is cancelled."""
    ask_stop: Callable[[], None] | None = None
    """Asks the child to end by itself; without it, stopping begins with cancelling."""
    destroy_s: float = 30.0
    """How long it may take to end after that, before it is destroyed. A child that is a
    supervisor is waited for: its own children are bounded."""
    destroy: Callable[[], object] | None = None
    """Takes away what a child that ignores cancelling hangs on, and frees its name. Must not
    block. A child that goes on even so is abandoned."""
