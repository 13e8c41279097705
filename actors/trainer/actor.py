"""Fits a policy on a ledger.

Owns      the fits it was asked for: one at a time, and the answers of those that are done.
Hears     Fit.
Says      Fitted, FitFailed.
On crash  the same fit, asked again, goes on from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import trio

from envs_node.actors.base import Actor
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import Fit, FitFailed, FitReport, FitSettings, Fitted
from envs_node.messages.ledger import Trajectory

_ANSWERS_MAX = 256


class FitFunction(Protocol):
    """Fits the policy in `base` on trajectories and saves it into `out`."""

    def __call__(
        self,
        trajectories: tuple[Trajectory, ...],
        base: Path,
        out: Path,
        settings: FitSettings,
    ) -> FitReport:
        """Go on from a checkpoint in `out`. Raises an `EnvsError` for what cannot be fitted."""


class TrainerActor(Actor[Fit]):
    """Runs a fit in a worker thread; a fit id that is done is answered from memory."""

    def __init__(
        self,
        read_trajectories: Callable[[Path], tuple[Trajectory, ...]],
        fit: FitFunction,
        *,
        fit_timeout_s: float = 6 * 3600.0,
    ) -> None:
        self._read_trajectories = read_trajectories
        self._fit = fit
        self._fit_timeout_s = fit_timeout_s
        self._answers: dict[str, Fitted | FitFailed] = {}
        self._fits = 0

    async def hear(self, message: Fit) -> Fitted | FitFailed:
        answer = self._answers.get(message.fit_id)
        if answer is None:
            answer = await self._run(message)
            while len(self._answers) >= _ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
            self._answers[message.fit_id] = answer
        return answer

    def statistics(self) -> dict[str, int | float]:
        return {"fits": self._fits, "answers": len(self._answers)}

    async def _run(self, message: Fit) -> Fitted | FitFailed:
        self._fits += 1
        try:
            with trio.fail_after(self._fit_timeout_s):
                report = await trio.to_thread.run_sync(
                    partial(self._read_and_fit, message), abandon_on_cancel=True
                )
        except EnvsError as error:
            return FitFailed(fit_id=message.fit_id, reason=str(error))
        return Fitted(fit_id=message.fit_id, policy=message.out, report=report)

    def _read_and_fit(self, message: Fit) -> FitReport:
        trajectories = self._read_trajectories(Path(message.ledger))
        return self._fit(trajectories, Path(message.base), Path(message.out), message.settings)
