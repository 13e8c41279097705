"""How actors run what blocks: in a thread, or however a simulation counts its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

_ResultT = TypeVar("_ResultT")


class RunBlocking(Protocol):
    """Runs a call that blocks, while others go on. Cancelled, it abandons the call."""

    async def __call__(
        self, call: Callable[[], _ResultT], *, limiter: trio.CapacityLimiter | None = None
    ) -> _ResultT:
        """Return what the call returns, or raise what it raises."""


async def run_in_thread(
    call: Callable[[], _ResultT], *, limiter: trio.CapacityLimiter | None = None
) -> _ResultT:
    """The one that actors use unless they are given another."""
    return await trio.to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)
