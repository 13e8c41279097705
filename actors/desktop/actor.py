"""Keeps one desktop and drives it.

Owns      one desktop: its processes, X server, input and disk layer.
Hears     Configure, Reset, KeepFork, Act, Observe, FetchFrame, Close.
Says      Configured, ResetDone, ForkKept, Acted, Observed, FrameFetched, Closed, and refusals.
On crash  starts over without a desktop; the search replays the branch elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar, assert_never

import trio

from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.actors.desktop.episode import Episode, ResetTimes
from envs_node.actors.desktop.errors import (
    ActionRefusedError,
    DesktopLostError,
    ForkRefusedError,
    LauncherError,
    SetupFailedError,
)  # fmt: skip
from envs_node.actors.desktop.interface import Desktop
from envs_node.messages.base import DesktopId, Message
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    Close,
    Closed,
    Configure,
    Configured,
    ConfigureFailed,
    FetchFrame,
    ForkKept,
    ForkRefused,
    FrameFetched,
    FrameUnknown,
    KeepFork,
    Observe,
    Observed,
    Reset,
    ResetDone,
    ResetFailed,
)  # fmt: skip
from envs_node.messages.tasks import Task

Heard: TypeAlias = Configure | Reset | KeepFork | Act | Observe | FetchFrame | Close
RESET_TIMEOUT_S = 120.0
FORK_TIMEOUT_S = 60.0
ACT_TIMEOUT_S = 90.0
LOOK_TIMEOUT_S = 30.0
_T = TypeVar("_T")


class DesktopActor(Actor[Heard]):
    """Owns one desktop. Asked twice, it answers twice and acts once, and never before `Reset`."""

    def __init__(
        self, desktop_id: DesktopId, desktop: Desktop, *,
        run_blocking: RunBlocking = run_in_thread, reset_timeout_s: float = RESET_TIMEOUT_S,
    ) -> None:  # fmt: skip
        self._id = desktop_id
        self._desktop = desktop
        self._run_blocking = run_blocking
        self._reset_timeout_s = reset_timeout_s
        self._task: Task | None = None
        self._reset: ResetDone | ResetFailed | None = None
        self._episode: Episode | None = None
        self._times = ResetTimes()
        self._counts = {"resets": 0, "forked": 0, "actions": 0, "repeats": 0}

    async def hear(self, message: Heard) -> Message:
        """Dispatch."""
        match message:
            case Configure(task=task, branch=branch):
                return self._configure(task, branch)
            case Reset():
                return await self._restart(message)
            case KeepFork():
                return await self._keep(message)
            case Act():
                return await self._act(message)
            case Observe():
                seen = await self._in_thread(self._desktop.observe, LOOK_TIMEOUT_S)
                return Observed(desktop_id=self._id, observation=seen)
            case FetchFrame(frame=frame):
                return await self._fetch(frame)
            case Close():
                await self.stop()
                return Closed(desktop_id=self._id)
        assert_never(message)

    async def stop(self) -> None:
        """Destroy the desktop; its launcher kills and waits, so this takes milliseconds."""
        self._reset = self._episode = None
        gone = suppress(DesktopLostError, LauncherError)  # already, which was wanted
        with trio.move_on_after(LOOK_TIMEOUT_S, shield=True), gone:
            await self._run_blocking(self._desktop.close)

    def statistics(self) -> dict[str, int | float]:
        """Resets and how long they took, those by a clone, actions and repeated requests so far."""
        return self._counts | self._times.statistics()

    def _configure(self, task: Task, branch: str) -> Configured | ConfigureFailed:
        try:
            self._desktop.check(task, branch)
        except SetupFailedError as error:
            return ConfigureFailed(desktop_id=self._id, reason=str(error))
        self._task = task
        return Configured(desktop_id=self._id)

    async def _restart(self, message: Reset) -> ResetDone | ResetFailed:
        if self._reset is not None and self._reset.episode == message.episode:
            self._counts["repeats"] += 1
            return self._reset
        refuse = partial(ResetFailed, desktop_id=self._id, episode=message.episode)
        if self._task is None:
            return refuse(reason="no task: configure it")
        task, desktop, start = self._task, self._desktop, trio.current_time()
        prefix, wants_clone = message.prefix or (), message.prefix is not None
        self._episode = None
        self._counts["resets"] += 1
        try:
            fork, fresh = partial(desktop.reset_forked, task, prefix), partial(desktop.reset, task)
            clone = await self._in_thread(fork, FORK_TIMEOUT_S) if wants_clone else None
            fork_ms = _elapsed_ms(start) if wants_clone and desktop.can_fork else 0
            seen = clone.seen if clone else (await self._in_thread(fresh, self._reset_timeout_s),)
        except (SetupFailedError, LauncherError) as error:
            self._reset = refuse(reason=str(error), is_setup=isinstance(error, SetupFailedError))
            return self._reset
        self._counts["forked"] += int(clone is not None)
        self._reset = ResetDone(
            desktop_id=self._id, episode=message.episode, observation=seen[-1], seen=seen[:-1],
            guest_pid=desktop.guest_pid, can_fork=desktop.can_fork, forked_steps=len(seen) - 1,
            reset_ms=0 if clone else self._times.add(_elapsed_ms(start) - fork_ms), fork_ms=fork_ms,
        )  # fmt: skip
        self._episode = Episode(task, self._reset, prefix)
        return self._reset

    async def _keep(self, message: KeepFork) -> ForkKept | ForkRefused:
        episode, start = self._episode, trio.current_time()
        where = self._where(message)
        refuse = partial(ForkRefused, **where)
        if episode and (known := episode.fork_at(message)):
            self._counts["repeats"] += 1
            return known
        if episode is None or (why := episode.refusal(message)):
            return refuse(reason=why if episode else "no episode runs")
        work = partial(self._desktop.keep_fork, episode.key(), episode.seen)
        try:
            size_bytes = await self._in_thread(work, ACT_TIMEOUT_S)
        except ForkRefusedError as error:
            return episode.forked(refuse(reason=str(error)))
        fork_ms = _elapsed_ms(start)
        return episode.forked(ForkKept(**where, size_bytes=size_bytes, fork_ms=fork_ms))

    async def _act(self, message: Act) -> Acted | ActFailed:
        episode, start = self._episode, trio.current_time()
        where = self._where(message)
        refuse = partial(ActFailed, **where)
        if episode and (known := episode.answer_to(message)):
            self._counts["repeats"] += 1
            return known
        if episode is None or (why := episode.refusal(message)):
            return refuse(reason=why if episode else "no episode runs")
        self._counts["actions"] += 1
        try:
            seen = await self._in_thread(partial(self._desktop.act, message.action), ACT_TIMEOUT_S)
        except ActionRefusedError as error:
            answer: Acted | ActFailed = refuse(reason=str(error), is_refused=True)
        else:
            answer = Acted(**where, observation=seen, act_ms=_elapsed_ms(start))
        return episode.acted(message, answer)

    def _where(self, message: Act | KeepFork) -> dict[str, Any]:
        return {"desktop_id": self._id, "episode": message.episode, "step": message.step}

    async def _fetch(self, frame: str) -> FrameFetched | FrameUnknown:
        png = await self._in_thread(lambda: self._desktop.frame_png(frame), LOOK_TIMEOUT_S)
        if png is None:
            return FrameUnknown(frame=frame, reason="not of this episode, or dropped for space")
        return FrameFetched(frame=frame, png=png)

    async def _in_thread(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Run blocking work under a deadline. What overruns it is abandoned, and we crash."""
        with trio.move_on_after(timeout_s):
            return await self._run_blocking(work)
        raise DesktopLostError(f"the desktop did not answer within {timeout_s:g} s")


def _elapsed_ms(start_s: float) -> int:
    return math.ceil((trio.current_time() - start_s) * 1000)
