"""Supervised fit: one pass over the ledger's examples, hard tasks weighing more."""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from envs_node.fit.checkpoint import (
    digest_fit,
    hold_folder,
    open_checkpoints,
    publish_files,
    read_report,
    seal_checkpoint,
    write_report,
)
from envs_node.fit.examples import ExampleSet, collect_examples
from envs_node.fit.loss import weighted_loss
from envs_node.fit.shift import measure_shift
from envs_node.fit.weights import hard_weights
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import FitReport, FitSettings
from envs_node.messages.ledger import Trajectory
from envs_node.policy.models.learner import Learner, load_learner
from envs_node.policy.models.quiet import quiet_transformers

OnStep = Callable[[int, int, float], None]
"""Called after each optimizer step: steps done, steps in all, loss. What it raises cuts the fit
short there; asked for again, the fit goes on from its last checkpoint."""

_WEIGH_BATCH = 32
_log = structlog.get_logger(__name__)


class NothingToFitError(EnvsError):
    """The ledger holds no example that the policy could learn."""


def fit_policy(
    trajectories: tuple[Trajectory, ...],
    base: Path,
    out: Path,
    settings: FitSettings,
    on_step: OnStep | None = None,
) -> FitReport:
    """Fit the policy in `base` and save it into `out`, going on from a checkpoint there.

    A fit that was cut short and asked for again ends in the same weights as one that was not; one
    that is done is not done again.

    Raises:
        PolicyError: `base` holds no policy that can be trained.
        NothingToFitError: no trajectory, or none that the policy can express.
        FolderHeldError: another fit into `out` is under way.
    """
    with hold_folder(out):
        return _fit(trajectories, base, out, settings, on_step)


def _fit(
    trajectories: tuple[Trajectory, ...],
    base: Path,
    out: Path,
    settings: FitSettings,
    on_step: OnStep | None,
) -> FitReport:
    began = time.monotonic()
    learner = load_learner(base)
    found = collect_examples(trajectories, certified_only=settings.certified_only)
    fit = digest_fit(_digest(base), found.examples, settings)
    done = read_report(out, fit)
    if done is not None:
        _log.info("fit.known", out=str(out))
        return done

    items, weights = _prepare(learner, found, settings)
    with _threads(settings.threads):
        old, entropy_before = _weigh(learner, items)
        checkpoints = out / "checkpoints"
        last = open_checkpoints(checkpoints, fit)
        losses = _train(learner, items, weights, settings, checkpoints, last, on_step)
        new, entropy_after = _weigh(learner, items)
    shift = measure_shift(old, new)
    quarter = -(-len(losses) // 4)
    made = out / "policy.partial"
    shutil.rmtree(made, ignore_errors=True)
    learner.save(made)
    publish_files(made, out)
    report = FitReport(
        trajectories=found.trajectories,
        examples_before_sharing=found.before_sharing,
        examples=len(items),
        optimizer_steps=len(losses),
        loss_first=_mean(losses[:quarter]),
        loss_last=_mean(losses[-quarter:]),
        weight_min=min(weights),
        weight_max=max(weights),
        log_ratio=shift.log_ratio,
        effective_sample_size=shift.effective_sample_size,
        entropy_before=entropy_before,
        entropy_after=entropy_after,
        wall_s=time.monotonic() - began,
        resumed=last is not None,
    )
    write_report(out, fit, report)
    _log.info("fit.finished", ratio_max=shift.ratio_max, loss=report.loss_last, out=str(out))
    return report


def _prepare(
    learner: Learner, found: ExampleSet, settings: FitSettings
) -> tuple[list[Any], tuple[float, ...]]:
    """Items to learn and their weights; what the policy cannot express is left out, and told."""
    encoded = [learner.encode(e.state, e.action, e.text) for e in found.examples]
    kept = [i for i, item in enumerate(encoded) if item is not None]
    if not kept:
        raise NothingToFitError(
            f"{found.trajectories} trajectories give no example to fit on:"
            " search first, or set certified_only to false"
        )
    weights = hard_weights(
        [found.examples[i].success_rate for i in kept],
        beta=settings.hard_beta,
        weight_max=settings.weight_max,
    )
    _log.info(
        "fit.prepared",
        trajectories=found.trajectories,
        examples_before_sharing=found.before_sharing,
        examples=len(kept),
        examples_not_expressible=len(encoded) - len(kept),
        weight_min=min(weights),
        weight_max=max(weights),
        optimizer_steps=-(-len(kept) // settings.batch_size) * settings.epochs,
    )
    return [encoded[i] for i in kept], weights


def _weigh(learner: Learner, items: Sequence[Any]) -> tuple[list[float], float]:
    """Log-probability of each item's action, and the mean entropy of their states."""
    log_probs: list[float] = []
    entropies: list[float] = []
    for start in range(0, len(items), _WEIGH_BATCH):
        some, more = learner.weigh(learner.collate(items[start : start + _WEIGH_BATCH]))
        log_probs += some
        entropies += more
    return log_probs, _mean(entropies)


def _train(
    learner: Learner,
    items: Sequence[Any],
    weights: Sequence[float],
    settings: FitSettings,
    checkpoints: Path,
    last: Path | None,
    on_step: OnStep | None,
) -> list[float]:
    """Loss of every optimizer step, those before the checkpoint included."""
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        weight_decay=0.01,
        lr_scheduler_type="linear",
        warmup_steps=2,
        seed=settings.seed,
        data_seed=settings.seed,
        save_steps=settings.checkpoint_steps,
        save_total_limit=2,
        logging_steps=1,
        disable_tqdm=True,
        report_to=[],
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=True,
    )
    with quiet_transformers(), _own_chance():
        trainer = _WeightedTrainer(
            model=learner.model,
            args=arguments,
            train_dataset=list(zip(items, weights, strict=True)),
            data_collator=lambda rows: _collate(learner, rows),
            callbacks=[_Steps(on_step)],
        )
        trainer.learner = learner
        trainer.smoothing = settings.label_smoothing
        trainer.pop_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    return [float(row["loss"]) for row in trainer.state.log_history if "loss" in row]


def _collate(learner: Learner, rows: Sequence[tuple[Any, float]]) -> dict[str, Tensor]:
    batch = learner.collate([item for item, _ in rows])
    return {**batch, "weights": torch.tensor([weight for _, weight in rows])}


class _WeightedTrainer(Trainer):
    """A trainer whose loss is the weighted mean of the learner's own losses."""

    learner: Learner
    smoothing: float
    loss_is_scaled_for_ga = False

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Weighted loss of one batch."""
        batch = dict(inputs)
        weights = batch.pop("weights")
        return weighted_loss(self.learner.losses(model, batch, self.smoothing), weights)


class _Steps(TrainerCallback):
    def __init__(self, on_step: OnStep | None) -> None:
        self._on_step = on_step

    def on_log(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        logs = state.log_history[-1]
        if "loss" in logs:
            _log.debug("fit.stepped", step=state.global_step, loss=logs["loss"])
            if self._on_step is not None:
                self._on_step(state.global_step, state.max_steps, float(logs["loss"]))

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        seal_checkpoint(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _own_chance() -> Iterator[None]:
    """The trainer seeds global generators; put them back as they were."""
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(state)


def _digest(base: Path) -> str:
    return hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
