"""Fits a policy on a ledger, one fit at a time, in a thread of its own.

Owns      the fit that is under way, and the answers of those that are done.
Hears     Fit.
Says      FitRunning, Fitted, FitFailed.
On crash  the same fit, asked again, goes on from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.fit.checkpoint import FolderHeldError
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import Fit, FitFailed, FitReport, FitRunning, FitSettings, Fitted
from envs_node.messages.ledger import Trajectory

_ANSWERS_MAX = 256

_log = structlog.get_logger(__name__)


class FitFunction(Protocol):
    """Fits the policy in `base` on trajectories and saves it into `out`."""

    def __call__(
        self,
        trajectories: tuple[Trajectory, ...],
        base: Path,
        out: Path,
        settings: FitSettings,
        on_step: Callable[[int, int, float], None] | None = None,
    ) -> FitReport:
        """Go on from a checkpoint in `out`. Raises an `EnvsError` for what cannot be fitted.

        `on_step` hears steps done, steps in all and the loss; what it raises cuts the fit short.
        """


class FitStoppedError(EnvsError):
    """The trainer is being stopped; the fit goes on from its checkpoint when asked for again."""


class TrainerActor(Actor[Fit]):
    """Answers how far the fit is, and in the end how it went; never waits for it.

    A second fit is not queued: whoever wants it asks again, and it begins when the first is over.
    """

    def __init__(
        self, read_trajectories: Callable[[Path], tuple[Trajectory, ...]], fit: FitFunction
    ) -> None:
        self._read_trajectories = read_trajectories
        self._fit = fit
        self._answers: OrderedDict[str, Fitted | FitFailed] = OrderedDict()
        self._work: _Work | None = None
        self._fits = 0

    async def hear(self, message: Fit) -> FitRunning | Fitted | FitFailed:
        self._take_outcome()
        if (answer := self._answers.get(message.fit_id)) is not None:
            return answer
        work = self._work
        if work is None:
            self._fits += 1
            work = self._work = _Work(message, partial(self._read_and_fit, message))
        other = work.request.fit_id if work.request.fit_id != message.fit_id else ""
        step, steps = work.at
        return FitRunning(fit_id=message.fit_id, step=step, steps=steps, waits_for=other)

    async def stop(self) -> None:
        """Cut the fit short after the step it is at, for the folder must be let go."""
        if self._work is not None:
            await self._work.stop()

    def statistics(self) -> dict[str, int | float]:
        """Fits begun, answers remembered, and how far the fit is that is under way."""
        step, steps = self._work.at if self._work is not None else (0, 0)
        is_fitting = self._work is not None and self._work.outcome is None
        counts = {"fits": self._fits, "answers": len(self._answers), "is_fitting": is_fitting}
        return {**counts, "step": step, "steps": steps}

    def _take_outcome(self) -> None:
        """Remember how the fit went that is over. A crash of it is ours."""
        work = self._work
        if work is None or work.outcome is None:
            return
        self._work = None
        request = work.request
        try:
            report = work.outcome.unwrap()
        except FolderHeldError as error:  # of a trainer that was taken for dead: ask again later
            _log.warning("fit.deferred", fit_id=request.fit_id, error=str(error))
            return
        except EnvsError as error:
            answer: Fitted | FitFailed = FitFailed(fit_id=request.fit_id, reason=str(error))
        except OSError as error:  # of a folder or file that was named: it is theirs, not ours
            where = error.filename or request.out
            reason = f"{where}: {error.strerror or error}; name another, or make room there"
            answer = FitFailed(fit_id=request.fit_id, reason=reason)
        else:
            answer = Fitted(fit_id=request.fit_id, policy=request.out, report=report)
        while len(self._answers) >= _ANSWERS_MAX:
            self._answers.popitem(last=False)
        self._answers[request.fit_id] = answer

    def _read_and_fit(self, message: Fit, on_step: Callable[[int, int, float], None]) -> FitReport:
        trajectories = self._read_trajectories(Path(message.ledger))
        base, out = Path(message.base), Path(message.out)
        return self._fit(trajectories, base, out, message.settings, on_step)


class _Work:
    """A fit in a daemon thread: it may take hours, and must not keep the process from ending."""

    def __init__(
        self, request: Fit, fit: Callable[[Callable[[int, int, float], None]], FitReport]
    ) -> None:
        self.request = request
        self.at = (0, 0)
        """Steps done and steps in all."""
        self.outcome: Any = None
        """What `outcome.capture` makes of the fit, once it is over."""
        self._is_stopping = threading.Event()
        self._is_over = trio.Event()
        self._trio = trio.lowlevel.current_trio_token()
        run = partial(contextvars.copy_context().run, fit, self._stepped)
        trio.lowlevel.start_thread_soon(run, self._over, f"fit {request.fit_id}")

    async def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._is_stopping.set()
        await self._is_over.wait()

    def _stepped(self, step: int, steps: int, _loss: float) -> None:
        self.at = (step, steps)
        if self._is_stopping.is_set():
            raise FitStoppedError(f"stopped after step {step} of {steps}")

    def _over(self, result: Any) -> None:
        with contextlib.suppress(trio.RunFinishedError):  # nobody is left who would want it
            self._trio.run_sync_soon(self._tell, result)

    def _tell(self, result: Any) -> None:
        self.outcome = result
        self._is_over.set()
