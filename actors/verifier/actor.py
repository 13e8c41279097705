"""Judges desktops with OSWorld's own checker.

Owns      the checker: one warm process, and a fresh folder a verdict.
Hears     Verify.
Says      Verified, whatever happens.
On crash  starts a new checker; the verdict that was under way is infra, its leaf is replayed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.messages.base import EnvsError
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict, Verified, Verify
from envs_node.policy.tasks import postconfig_sleep_s

REMEMBERED_MAX = 256
START_TIMEOUT_S = 90.0
CLOSE_TIMEOUT_S = 10.0

_log = structlog.get_logger()


class ChecksDesktops(Protocol):
    """The checker. Its calls block and end by themselves."""

    def start(self) -> None:
        """Get ready. Raises an `EnvsError` when that fails."""

    def verify(self, task: Task, guest_pid: int, last_action: Literal["DONE", "FAIL"]) -> Verdict:
        """Judge one desktop; what goes wrong is a verdict, too."""

    def close(self) -> None:
        """Let go of everything."""


class VerifierActor(Actor[Verify]):
    """Answers each `verify_id` once judged, and from memory when asked again."""

    def __init__(
        self,
        checker: ChecksDesktops,
        *,
        verify_timeout_s: float = 180.0,
        loss: Callable[[int], str] = lambda _: "",
        run_blocking: RunBlocking = run_in_thread,
    ) -> None:
        """Take a checker.

        Args:
            checker: judges; it has deadlines of its own.
            verify_timeout_s: when the checker is given up; a task's own sleeps come on top.
            loss: why the desktop with this first process is lost, if it is; what was found on one
                that was lost meanwhile is no verdict on a policy.
            run_blocking: runs the checker's calls, which block.
        """
        self._checker = checker
        self._verify_timeout_s = verify_timeout_s
        self._loss = loss
        self._run_blocking = run_blocking
        self._remembered: OrderedDict[str, Verdict] = OrderedDict()
        self._verdicts = 0

    async def start(self) -> None:
        """Warm the checker."""
        with trio.fail_after(START_TIMEOUT_S):
            await self._run_blocking(self._checker.start)

    async def hear(self, message: Verify) -> Verified:
        """Judge, or repeat what was judged."""
        verdict = self._remembered.get(message.verify_id)
        if verdict is None:
            verdict = await self._judge(message)
            self._remembered[message.verify_id] = verdict
            if len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return Verified(verify_id=message.verify_id, verdict=verdict)

    async def stop(self) -> None:
        """Close the checker."""
        with trio.move_on_after(CLOSE_TIMEOUT_S) as scope:
            scope.shield = True
            await self._run_blocking(self._checker.close)

    def statistics(self) -> dict[str, int | float]:
        """Verdicts reached, and how many are remembered."""
        return {"verdicts": self._verdicts, "remembered": len(self._remembered)}

    async def _judge(self, message: Verify) -> Verdict:
        timeout_s = self._verify_timeout_s + postconfig_sleep_s(message.task)
        verdict = Verdict(
            verdict="infra",
            reason=f"the checker gave no verdict within {timeout_s:g} s",
            task_sha256=message.task.sha256,
        )
        with trio.move_on_after(timeout_s):
            verdict = await self._run_blocking(partial(self._ask, message))
        self._verdicts += 1
        _log.info(
            "verdict.reached",
            task_id=message.task.id,
            verdict=verdict.verdict,
            score=verdict.score,
            reason=verdict.reason,
            wall_ms=verdict.wall_ms,
        )
        return verdict

    def _ask(self, message: Verify) -> Verdict:
        """Call the checker, in a thread; its failure is a verdict of class infra."""
        try:
            verdict = self._checker.verify(message.task, message.guest_pid, message.last_action)
            reason = self._loss(message.guest_pid)
        except (EnvsError, OSError) as error:
            reason = f"the checker failed: {error}"
        if reason:
            return Verdict(verdict="infra", reason=reason, task_sha256=message.task.sha256)
        return verdict
