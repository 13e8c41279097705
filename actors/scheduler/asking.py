"""How a search is asked: not for long, and no longer than until the run pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.messages.base import Message, TaskId

_SEARCH_S = 10.0

_log = structlog.get_logger(__name__)


class Pause(Protocol):
    """What makes a whole run wait."""

    def why_paused(self) -> str:
        """What is waited for; empty while nothing is."""

    async def wait_paused(self) -> None:
        """Return when all pause."""


async def ask_search(
    task_id: TaskId, search: Ref, message: Message, pause: Pause | None
) -> Message | None:
    """Its answer, or None when it has none now.

    A search that waits for room does not answer; whoever asks it need not wait for that.
    """
    answer: Message | None = None
    async with trio.open_nursery() as nursery:
        if pause is not None:
            nursery.start_soon(_cancel_after, pause.wait_paused, nursery.cancel_scope)
        try:
            answer = await search.ask(message, timeout_s=_SEARCH_S)
        except (AskTimeoutError, ActorCrashedError) as error:
            _log.warning("search.missed", task_id=task_id, error=str(error))
        nursery.cancel_scope.cancel()
    return answer


async def _cancel_after(wait: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel()
