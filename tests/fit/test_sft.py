"""The fit: it learns, it weighs, it goes on where it was cut short."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from structlog.testing import capture_logs

from envs_node.deploy.config import BASE_POLICY
from envs_node.fit.examples import collect_examples
from envs_node.fit.sft import NothingToFitError, fit_policy
from envs_node.messages.fit import FitSettings
from envs_node.messages.ledger import Trajectory
from envs_node.policy.backend import Policy, PolicyError
from envs_node.policy.models.load import load_policy
from tests.fit.fitting_process import SETTINGS as FITTED_ALONE

MakeTrajectory = Callable[..., Trajectory]
SETTINGS = FitSettings(batch_size=4, checkpoint_steps=3, learning_rate=2e-3)


class CutShort(Exception):
    """Stands for a crash in the middle of a fit."""


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def ledger(make_trajectory: MakeTrajectory) -> tuple[Trajectory, ...]:
    return tuple(make_trajectory(seed, success_rate=seed % 4 / 4) for seed in range(10))


def test_a_fit_cut_short_ends_in_the_same_weights(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    def cut_at_seven(step: int, of: int, loss: float) -> None:
        if step == 7:
            raise CutShort

    whole = fit_policy(ledger, base, tmp_path / "whole", SETTINGS)
    with pytest.raises(CutShort):
        fit_policy(ledger, base, tmp_path / "cut", SETTINGS, cut_at_seven)
    resumed = fit_policy(ledger, base, tmp_path / "cut", SETTINGS)

    assert weights_of(tmp_path / "cut") == weights_of(tmp_path / "whole")
    assert resumed.resumed
    assert not whole.resumed
    assert msgspec.structs.replace(resumed, wall_s=0, resumed=False) == msgspec.structs.replace(
        whole, wall_s=0
    )


@pytest.mark.slow
def test_each_sample_is_trained_once_and_in_order_though_the_fit_is_killed_twice(
    make_trajectory: MakeTrajectory, base: Path, tmp_path: Path
) -> None:
    lessons = tuple(make_trajectory(seed, success_rate=seed % 4 / 4) for seed in range(40))
    some, examples = 0, 0
    while examples < 100:
        some += 1
        examples = len(collect_examples(lessons[:some], certified_only=True).examples)
    packed, out = tmp_path / "lessons", tmp_path / "killed"
    packed.write_bytes(msgspec.msgpack.encode(lessons[:some]))
    kept: dict[int, str] = {}

    for number, dies_at in enumerate((37, 71, 0)):
        told = tmp_path / f"losses-{number}"
        arguments = (packed, base, out, told, dies_at)
        killed = subprocess.run(
            [sys.executable, "-m", "tests.fit.fitting_process", *map(str, arguments)],
            check=False,
            timeout=120,
        )
        assert killed.returncode == (-signal.SIGKILL if dies_at else 0)
        steps = dict(line.split() for line in told.read_text().splitlines())
        assert min(map(int, steps)) == (1, 31, 71)[number], "it goes on where it was sealed"
        kept.update({int(step): loss for step, loss in steps.items()})
    whole: dict[int, str] = {}
    fit_policy(
        lessons[:some],
        base,
        tmp_path / "whole",
        FITTED_ALONE,
        lambda step, of, loss: whole.update({step: repr(loss)}),
    )

    assert kept == whole
    assert sorted(whole) == list(range(1, examples + 1)), "one sample a step, one epoch"
    assert weights_of(out) == weights_of(tmp_path / "whole")


def test_learning_really_happens(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(SETTINGS, epochs=12)

    report = fit_policy(ledger, base, tmp_path / "fitted", settings)

    old, new = load_policy(base), load_policy(tmp_path / "fitted")
    assert report.loss_last < report.loss_first
    assert report.log_ratio > 0
    assert report.entropy_after < report.entropy_before
    assert hits(new, ledger) > hits(old, ledger) + 5
    assert new.name != old.name


def test_a_small_ledger_makes_solutions_likelier_that_it_does_not_hold(
    make_trajectory: MakeTrajectory, tmp_path: Path
) -> None:
    known = tuple(make_trajectory(seed, kind="append") for seed in range(12))
    new = tuple(make_trajectory(seed, kind="append") for seed in range(100, 108))

    report = fit_policy(known, BASE_POLICY, tmp_path / "fitted", FitSettings())

    before, after = load_policy(BASE_POLICY), load_policy(tmp_path / "fitted")
    assert report.log_ratio > 0
    assert log_prob(after, new) > log_prob(before, new) + 0.05
    assert hits(after, new) >= hits(before, new)


def log_prob(policy: Policy, ledger: tuple[Trajectory, ...]) -> float:
    """Mean over the steps, in nats."""
    examples = collect_examples(ledger, certified_only=True).examples
    return sum(policy.score(e.state, [e.action])[0] for e in examples) / len(examples)


def test_the_losses_told_are_means_of_a_quarter_of_the_steps(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    losses: list[float] = []

    report = fit_policy(
        ledger, base, tmp_path / "fitted", SETTINGS, lambda step, of, loss: losses.append(loss)
    )

    quarter = -(-len(losses) // 4)
    assert quarter > 1
    assert report.loss_first == pytest.approx(sum(losses[:quarter]) / quarter)
    assert report.loss_last == pytest.approx(sum(losses[-quarter:]) / quarter)


def hits(policy: Policy, ledger: tuple[Trajectory, ...]) -> int:
    """Steps of the ledger that are the policy's greedy choice."""
    count = 0
    for example in collect_examples(ledger, certified_only=True).examples:
        best = policy.propose(example.state, samples=1, temperature=1.0, seed=0, greedy=True)[0]
        count += policy.score(example.state, [example.action])[0] == best.log_prob
    return count


def test_a_task_that_is_always_solved_weighs_little_beside_one_that_never_is(
    make_trajectory: MakeTrajectory, base: Path, tmp_path: Path
) -> None:
    easy, hard = make_trajectory(1, success_rate=1.0), make_trajectory(2, success_rate=0.0)

    settings = msgspec.structs.replace(SETTINGS, hard_beta=1.0)
    report = fit_policy((easy, hard), base, tmp_path / "fitted", settings)

    assert report.weight_max == pytest.approx(10 * report.weight_min)
    assert report.weight_max > 1.5
    assert report.examples == len(easy.steps) + len(hard.steps)


def test_a_fit_that_is_done_is_not_done_again(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    first = fit_policy(ledger[:2], base, tmp_path / "fitted", SETTINGS)
    steps: list[int] = []

    again = fit_policy(
        ledger[:2], base, tmp_path / "fitted", SETTINGS, lambda step, of, loss: steps.append(step)
    )

    assert again == first
    assert steps == []


def test_checkpoints_of_another_fit_are_not_gone_on_from(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    fit_policy(ledger[:3], base, tmp_path / "fitted", SETTINGS)

    report = fit_policy(ledger[3:6], base, tmp_path / "fitted", SETTINGS)
    fit_policy(ledger[3:6], base, tmp_path / "fresh", SETTINGS)

    assert not report.resumed
    assert weights_of(tmp_path / "fitted") == weights_of(tmp_path / "fresh")


def test_a_torn_checkpoint_is_passed_over(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    def cut_at_eight(step: int, of: int, loss: float) -> None:
        if step == 8:
            raise CutShort

    with pytest.raises(CutShort):
        fit_policy(ledger, base, tmp_path / "cut", SETTINGS, cut_at_eight)
    (tmp_path / "cut/checkpoints/checkpoint-6/trainer_state.json").write_text("{")
    fit_policy(ledger, base, tmp_path / "cut", SETTINGS)
    fit_policy(ledger, base, tmp_path / "whole", SETTINGS)

    assert weights_of(tmp_path / "cut") == weights_of(tmp_path / "whole")


def test_numbers_are_logged_before_the_first_step_and_nothing_is_printed(
    ledger: tuple[Trajectory, ...],
    base: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with capture_logs() as logs:
        fit_policy(ledger, base, tmp_path / "fitted", SETTINGS)

    events = [log["event"] for log in logs]
    assert events[0] == "fit.prepared"
    assert events[1] == "fit.stepped"
    assert events[-1] == "fit.finished"
    assert {"examples", "examples_before_sharing", "optimizer_steps"} <= logs[0].keys()
    assert capfd.readouterr() == ("", "")


def test_the_global_random_state_is_left_alone(
    ledger: tuple[Trajectory, ...], base: Path, tmp_path: Path
) -> None:
    before = torch.random.get_rng_state()

    fit_policy(ledger[:2], base, tmp_path / "fitted", SETTINGS)

    assert torch.equal(torch.random.get_rng_state(), before)


def test_nothing_to_fit_on_says_what_to_do(
    make_trajectory: MakeTrajectory, base: Path, tmp_path: Path
) -> None:
    unsure = (make_trajectory(1, is_certified=False),)

    with pytest.raises(NothingToFitError, match=r"0 trajectories give .* search first"):
        fit_policy(unsure, base, tmp_path / "fitted", SETTINGS)


def test_a_base_that_is_no_policy_is_refused(
    ledger: tuple[Trajectory, ...], tmp_path: Path
) -> None:
    with pytest.raises(PolicyError, match="no policy folder"):
        fit_policy(ledger, tmp_path / "nowhere", tmp_path / "fitted", SETTINGS)
