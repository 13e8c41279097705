"""Keeps one desktop and drives it.

Owns      one desktop: its processes, X server, input and disk layer.
Hears     Configure, Reset, Act, Observe, FetchFrame, Close.
Says      Configured, ResetDone, Acted, Observed, FrameFetched, Closed, and their refusals.
On crash  starts over without a desktop; the search replays the branch elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias, TypeVar, assert_never

import trio

from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.actors.desktop.errors import (
    ActionRefusedError,
    DesktopLostError,
    LauncherError,
    SetupFailedError,
)  # fmt: skip
from envs_node.messages.actions import Action
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
    FrameFetched,
    FrameUnknown,
    Observation,
    Observe,
    Observed,
    Reset,
    ResetDone,
    ResetFailed,
)  # fmt: skip
from envs_node.messages.tasks import Task

Heard: TypeAlias = Configure | Reset | Act | Observe | FetchFrame | Close
RESET_TIMEOUT_S = 120.0
ACT_TIMEOUT_S = 90.0
LOOK_TIMEOUT_S = 30.0
_T = TypeVar("_T")


class Desktop(Protocol):
    """A desktop as its actor needs it. Every method blocks and is called in a thread."""

    @property
    def guest_pid(self) -> int:
        """The desktop's first process, as this host counts."""

    def check(self, task: Task) -> None:
        """Refuse a task that could not be set up."""

    def reset(self, task: Task) -> Observation:
        """Start over on a fresh desktop."""

    def act(self, action: Action) -> Observation:
        """Perform an action and look."""

    def observe(self) -> Observation:
        """Look."""

    def frame_png(self, digest: str) -> bytes | None:
        """The picture of a frame seen since the reset."""

    def close(self) -> None:
        """Destroy the desktop."""


class DesktopActor(Actor[Heard]):
    """Owns one desktop. Asked twice, it answers twice and acts once.

    Args:
        desktop: what `run_blocking` drives; nothing runs before the first `Reset`.
    """

    def __init__(
        self, desktop_id: DesktopId, desktop: Desktop, *, run_blocking: RunBlocking = run_in_thread
    ) -> None:
        self._id = desktop_id
        self._desktop = desktop
        self._run_blocking = run_blocking
        self._task: Task | None = None
        self._reset: ResetDone | ResetFailed | None = None
        self._acted: dict[int, Acted | ActFailed] = {}
        """Answers of this episode by step."""
        self._counts = {"resets": 0, "actions": 0, "repeats": 0}

    async def hear(self, message: Heard) -> Message:
        """Dispatch."""
        match message:
            case Configure(task=task):
                return self._configure(task)
            case Reset(episode=episode):
                return await self._restart(episode)
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
        self._reset = None
        self._acted.clear()
        gone = suppress(DesktopLostError, LauncherError)  # already, which was wanted
        with trio.move_on_after(LOOK_TIMEOUT_S, shield=True), gone:
            await self._run_blocking(self._desktop.close)

    def statistics(self) -> dict[str, int | float]:
        """Resets, actions and repeated requests so far."""
        return dict(self._counts)

    def _configure(self, task: Task) -> Configured | ConfigureFailed:
        try:
            self._desktop.check(task)
        except SetupFailedError as error:
            return ConfigureFailed(desktop_id=self._id, reason=str(error))
        self._task = task
        return Configured(desktop_id=self._id)

    async def _restart(self, episode: int) -> ResetDone | ResetFailed:
        if self._reset is not None and self._reset.episode == episode:
            self._counts["repeats"] += 1
            return self._reset
        refuse = partial(ResetFailed, desktop_id=self._id, episode=episode)
        if self._task is None:
            return refuse(reason="no task: configure it")
        task, start = self._task, trio.current_time()
        self._acted.clear()
        self._counts["resets"] += 1
        try:
            seen = await self._in_thread(lambda: self._desktop.reset(task), RESET_TIMEOUT_S)
        except (SetupFailedError, LauncherError) as error:
            self._reset = refuse(reason=str(error), is_setup=isinstance(error, SetupFailedError))
        else:
            self._reset = ResetDone(
                desktop_id=self._id, episode=episode, observation=seen,
                guest_pid=self._desktop.guest_pid, reset_ms=_elapsed_ms(start),
            )  # fmt: skip
        return self._reset

    async def _act(self, message: Act) -> Acted | ActFailed:
        episode, step = message.episode, message.step
        refuse = partial(ActFailed, desktop_id=self._id, episode=episode, step=step)
        if not isinstance(self._reset, ResetDone) or self._reset.episode != episode:
            return refuse(reason=f"episode {episode} is not the one that runs")
        if step in self._acted:
            self._counts["repeats"] += 1
            return self._acted[step]
        if step != len(self._acted):
            return refuse(reason=f"step {step} comes after step {len(self._acted)}")
        start = trio.current_time()
        self._counts["actions"] += 1
        try:
            seen = await self._in_thread(lambda: self._desktop.act(message.action), ACT_TIMEOUT_S)
        except ActionRefusedError as error:
            answer: Acted | ActFailed = refuse(reason=str(error), is_refused=True)
        else:
            answer = Acted(
                desktop_id=self._id, episode=episode, step=step, observation=seen,
                act_ms=_elapsed_ms(start),
            )  # fmt: skip
        self._acted[step] = answer
        return answer

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
