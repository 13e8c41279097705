"""The trainer: one fit at a time, never waited for; refusals are answers; a crash loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from envs_node.actors.trainer.actor import FitStoppedError, TrainerActor
from envs_node.fit.checkpoint import FolderHeldError
from envs_node.messages.base import EnvsError, Message
from envs_node.messages.fit import Fit, FitFailed, FitReport, FitRunning, FitSettings, Fitted
from envs_node.messages.ledger import Trajectory

REPORT = FitReport(
    trajectories=1, examples_before_sharing=2, examples=2, optimizer_steps=1, loss_first=1.0,
    loss_last=0.5, weight_min=1.0, weight_max=1.0, log_ratio=0.1, effective_sample_size=0.9,
    entropy_before=1.0, entropy_after=0.9, wall_s=0.1,
)  # fmt: skip
ASKED = Fit(fit_id="one", ledger="l.sqlite", base="b", out="o")
OTHER = Fit(fit_id="two", ledger="l.sqlite", base="b", out="p")
OnStep = Callable[[int, int, float], None]


class Fits:
    """Counts the fits; each waits at step 3 of 9 until it may go on, and may go wrong."""

    def __init__(self, error: Exception | None = None, *, waits: bool = False) -> None:
        self.asked: list[tuple[Path, Path, FitSettings]] = []
        self.error = error
        self.may_go_on = threading.Event()
        self.cut_short: list[str] = []
        if not waits:
            self.may_go_on.set()

    def __call__(
        self,
        trajectories: tuple[Trajectory, ...],
        base: Path,
        out: Path,
        settings: FitSettings,
        on_step: OnStep | None = None,
    ) -> FitReport:
        assert on_step is not None
        self.asked.append((base, out, settings))
        on_step(3, 9, 0.5)
        assert self.may_go_on.wait(timeout=10)
        try:
            on_step(4, 9, 0.5)
        except FitStoppedError as error:
            self.cut_short.append(str(error))
            raise
        if self.error is not None:
            raise self.error
        return REPORT


def read_nothing(ledger: Path) -> tuple[Trajectory, ...]:
    return ()


async def ask_on(
    actor: TrainerActor, asked: Fit, is_enough: Callable[[Message], bool] = lambda _: False
) -> Message:
    """Repeat a request until it is done, or the answer is enough."""
    with trio.fail_after(10):
        while True:
            answer = await actor.hear(asked)
            if not isinstance(answer, FitRunning) or is_enough(answer):
                return answer
            await trio.sleep(0.005)


def at_three(answer: Message) -> bool:
    return isinstance(answer, FitRunning) and answer.step == 3


async def test_a_fit_is_answered_by_its_report() -> None:
    fits = Fits()

    answer = await ask_on(TrainerActor(read_nothing, fits), ASKED)

    assert answer == Fitted(fit_id="one", policy="o", report=REPORT)
    assert fits.asked == [(Path("b"), Path("o"), FitSettings())]


async def test_a_fit_under_way_is_not_waited_for_and_says_how_far_it_is() -> None:
    fits = Fits(waits=True)
    actor = TrainerActor(read_nothing, fits)

    answer = await ask_on(actor, ASKED, at_three)
    counts = actor.statistics()
    fits.may_go_on.set()

    assert (counts["is_fitting"], counts["step"], counts["steps"]) == (True, 3, 9)

    assert answer == FitRunning(fit_id="one", step=3, steps=9)
    assert await ask_on(actor, ASKED) == Fitted(fit_id="one", policy="o", report=REPORT)
    assert len(fits.asked) == 1


async def test_a_second_fit_begins_when_the_first_is_over() -> None:
    fits = Fits(waits=True)
    actor = TrainerActor(read_nothing, fits)
    await ask_on(actor, ASKED, at_three)

    waiting = await actor.hear(OTHER)
    fits.may_go_on.set()

    assert waiting == FitRunning(fit_id="two", step=3, steps=9, waits_for="one")
    assert await ask_on(actor, OTHER) == Fitted(fit_id="two", policy="p", report=REPORT)
    assert await actor.hear(ASKED) == Fitted(fit_id="one", policy="o", report=REPORT)
    assert [out for _, out, _ in fits.asked] == [Path("o"), Path("p")]


async def test_a_repeated_fit_id_is_answered_from_memory() -> None:
    fits = Fits()
    actor = TrainerActor(read_nothing, fits)

    assert await ask_on(actor, ASKED) == await actor.hear(ASKED)
    assert len(fits.asked) == 1
    assert actor.statistics() == {
        "fits": 1, "answers": 1, "is_fitting": False, "step": 0, "steps": 0,
    }  # fmt: skip


async def test_what_cannot_be_fitted_is_a_refusal() -> None:
    answer = await ask_on(TrainerActor(read_nothing, Fits(EnvsError("no examples"))), ASKED)

    assert answer == FitFailed(fit_id="one", reason="no examples")


async def test_a_ledger_that_cannot_be_read_is_a_refusal() -> None:
    def read(ledger: Path) -> tuple[Trajectory, ...]:
        raise EnvsError(f"no ledger {ledger}")

    answer = await ask_on(TrainerActor(read, Fits()), ASKED)

    assert answer == FitFailed(fit_id="one", reason="no ledger l.sqlite")


async def test_a_folder_that_cannot_be_written_is_a_refusal_and_no_crash() -> None:
    missing = FileNotFoundError(2, "No such file or directory", "/proc/nope")
    actor = TrainerActor(read_nothing, Fits(missing))

    answer = await ask_on(actor, ASKED)

    reason = "/proc/nope: No such file or directory; name another, or make room there"
    assert answer == FitFailed(fit_id="one", reason=reason)


async def test_a_crash_of_the_fit_is_one_of_the_actor_and_leaves_no_answer_behind() -> None:
    fits = Fits(RuntimeError("out of memory"))
    actor = TrainerActor(read_nothing, fits)
    with pytest.raises(RuntimeError, match="out of memory"):
        await ask_on(actor, ASKED)

    fits.error = None

    assert await ask_on(actor, ASKED) == Fitted(fit_id="one", policy="o", report=REPORT)


async def test_a_folder_that_another_trainer_holds_is_tried_again_and_not_refused() -> None:
    fits = Fits(FolderHeldError(Path("o")))
    actor = TrainerActor(read_nothing, fits)
    await ask_on(actor, ASKED, lambda _: len(fits.asked) > 2)

    fits.error = None

    assert await ask_on(actor, ASKED) == Fitted(fit_id="one", policy="o", report=REPORT)


async def test_a_trainer_that_is_stopped_cuts_its_fit_short_after_a_step() -> None:
    fits = Fits(waits=True)
    actor = TrainerActor(read_nothing, fits)
    await ask_on(actor, ASKED, at_three)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.stop)
        await trio.sleep(0.05)
        fits.may_go_on.set()

    assert fits.cut_short == ["stopped after step 4 of 9"]


async def test_answers_are_bounded() -> None:
    actor = TrainerActor(read_nothing, Fits())

    for number in range(260):
        await ask_on(actor, Fit(fit_id=str(number), ledger="l", base="b", out="o"))

    assert actor.statistics()["answers"] == 256
