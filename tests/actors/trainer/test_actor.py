"""The trainer: one fit an id, refusals as answers, and nothing lost by a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from envs_node.actors.trainer.actor import TrainerActor
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import Fit, FitFailed, FitReport, FitSettings, Fitted
from envs_node.messages.ledger import Trajectory

REPORT = FitReport(
    trajectories=1, examples_before_sharing=2, examples=2, optimizer_steps=1, loss_first=1.0,
    loss_last=0.5, weight_min=1.0, weight_max=1.0, log_ratio=0.1, effective_sample_size=0.9,
    entropy_before=1.0, entropy_after=0.9, wall_s=0.1,
)  # fmt: skip
ASKED = Fit(fit_id="one", ledger="l.sqlite", base="b", out="o")


class Fits:
    """Counts the fits; each may go wrong in its own way."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[Path, Path, FitSettings]] = []
        self.error = error

    def __call__(
        self, trajectories: tuple[Trajectory, ...], base: Path, out: Path, settings: FitSettings
    ) -> FitReport:
        self.asked.append((base, out, settings))
        if self.error is not None:
            raise self.error
        return REPORT


def read_nothing(ledger: Path) -> tuple[Trajectory, ...]:
    return ()


async def test_a_fit_is_answered_by_its_report() -> None:
    fits = Fits()

    answer = await TrainerActor(read_nothing, fits).hear(ASKED)

    assert answer == Fitted(fit_id="one", policy="o", report=REPORT)
    assert fits.asked == [(Path("b"), Path("o"), FitSettings())]


async def test_a_repeated_fit_id_is_answered_from_memory() -> None:
    fits = Fits()
    actor = TrainerActor(read_nothing, fits)

    assert await actor.hear(ASKED) == await actor.hear(ASKED)
    assert len(fits.asked) == 1
    assert actor.statistics() == {"fits": 1, "answers": 1}


async def test_what_cannot_be_fitted_is_a_refusal() -> None:
    answer = await TrainerActor(read_nothing, Fits(EnvsError("no examples"))).hear(ASKED)

    assert answer == FitFailed(fit_id="one", reason="no examples")


async def test_a_ledger_that_cannot_be_read_is_a_refusal() -> None:
    def read(ledger: Path) -> tuple[Trajectory, ...]:
        raise EnvsError(f"no ledger {ledger}")

    answer = await TrainerActor(read, Fits()).hear(ASKED)

    assert answer == FitFailed(fit_id="one", reason="no ledger l.sqlite")


async def test_a_crash_leaves_no_answer_behind() -> None:
    fits = Fits(RuntimeError("out of memory"))
    actor = TrainerActor(read_nothing, fits)
    with pytest.raises(RuntimeError, match="out of memory"):
        await actor.hear(ASKED)

    fits.error = None

    assert await actor.hear(ASKED) == Fitted(fit_id="one", policy="o", report=REPORT)


async def test_answers_are_bounded() -> None:
    actor = TrainerActor(read_nothing, Fits())

    for number in range(300):
        await actor.hear(Fit(fit_id=str(number), ledger="l", base="b", out="o"))

    assert actor.statistics()["answers"] == 256


async def test_a_fit_that_takes_too_long_is_a_crash() -> None:
    waiting: list[Callable[[], None]] = []

    def slow(
        trajectories: tuple[Trajectory, ...], base: Path, out: Path, settings: FitSettings
    ) -> FitReport:
        event = trio.Event()
        waiting.append(event.set)
        trio.from_thread.run(event.wait)
        return REPORT

    with pytest.raises(trio.TooSlowError):
        await TrainerActor(read_nothing, slow, fit_timeout_s=0.05).hear(ASKED)
