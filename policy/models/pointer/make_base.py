"""Makes the built-in policy's starting weights from generated screens."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from envs_node.messages.actions import Click
from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.features import Features, choice_of, featurize
from envs_node.policy.models.pointer.lessons import Step, play
from envs_node.policy.models.pointer.model import (
    PointerConfig,
    PointerModel,
    action_losses,
    collate,
)
from envs_node.policy.models.pointer.policy import PointerPolicy, load_model
from envs_node.policy.models.quiet import quiet_transformers

Progress = Callable[[int, int, float], None]
"""Called after each epoch: epochs done, epochs in all, mean loss in nats."""

_HELD_OUT = 10_000_000
"""First seed of the lessons that are never trained on."""
_LENGTH_POOL = 8
"""Batches that are sorted by length together: less padding, still mixed."""


_DEFAULTS = BaseSettings()


class BaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was made, and how well it does on lessons it has not seen."""

    trajectories: int
    steps: int
    parameters: int
    loss_first: float
    """Mean of the first epoch, in nats."""
    loss_last: float
    validation_steps: int
    step_accuracy: float
    """Share of held-out steps whose greedy action is the lesson's."""
    task_accuracy: float
    """Share of held-out lessons of which every step is right."""
    entropy: float
    """Mean over held-out steps, in nats."""


def make_base(
    out: Path, settings: BaseSettings = _DEFAULTS, progress: Progress | None = None
) -> BaseReport:
    """Train from nothing and save into a folder; equal settings give equal weights.

    The global random state and thread count of torch are left as they were.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            return _make(out, settings, progress)
    finally:
        torch.set_num_threads(threads)


def _make(out: Path, settings: BaseSettings, progress: Progress | None) -> BaseReport:
    steps = _steps(settings.seed * 1_000_000, settings.trajectories)
    config = PointerConfig(
        width=settings.width,
        layers=settings.layers,
        heads=settings.heads,
        buckets=settings.buckets,
    )
    model = PointerModel(config)
    losses = _train(model, steps, settings, progress)
    with quiet_transformers():
        _halved(model).save_pretrained(out)
    kept = PointerPolicy(load_model(out), out.name)
    lessons = [play(_HELD_OUT + i) for i in range(settings.validation_trajectories)]
    hits = [[_is_hit(kept, step) for step in lesson] for lesson in lessons]
    entropies = [kept.entropy(state) for lesson in lessons for state, _ in lesson]
    flat = [hit for lesson in hits for hit in lesson]
    return BaseReport(
        trajectories=settings.trajectories,
        steps=len(steps),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        loss_first=losses[0],
        loss_last=losses[-1],
        validation_steps=len(flat),
        step_accuracy=sum(flat) / max(1, len(flat)),
        task_accuracy=sum(all(lesson) for lesson in hits) / max(1, len(hits)),
        entropy=sum(entropies) / max(1, len(entropies)),
    )


def _halved(model: PointerModel) -> PointerModel:
    for parameter in model.parameters():
        parameter.data = parameter.data.half()
    model.config.dtype = torch.float16
    return model


def _steps(first_seed: int, trajectories: int) -> list[Step]:
    return [step for i in range(trajectories) for step in play(first_seed + i)]


def _train(
    model: PointerModel,
    steps: Sequence[Step],
    settings: BaseSettings,
    progress: Progress | None,
) -> list[float]:
    """Mean loss of each epoch."""
    examples: list[tuple[Features, tuple[int, int]]] = []
    for state, action in steps:
        features = featurize(state, settings.buckets)
        choice = choice_of(action, features)
        assert choice is not None, f"a lesson asks for what cannot be said: {action}"
        examples.append((features, choice))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    chance = random.Random(settings.seed)
    batches_epoch = -(-len(examples) // settings.batch_size)
    total, done, losses = batches_epoch * settings.epochs, 0, []
    model.train()
    for epoch in range(settings.epochs):
        summed = 0.0
        for indices in _batches([len(f.types) for f, _ in examples], settings.batch_size, chance):
            for group in optimizer.param_groups:
                rise, fall = (done + 1) / 20, 1 - done / total
                group["lr"] = settings.learning_rate * min(1.0, rise) * max(0.02, fall)
            choices = model(collate([examples[i][0] for i in indices]))
            chosen = torch.tensor([examples[i][1] for i in indices])
            loss = action_losses(choices, chosen, settings.label_smoothing).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            summed += float(loss.detach()) * len(indices)
            done += 1
        losses.append(summed / len(examples))
        if progress is not None:
            progress(epoch + 1, settings.epochs, losses[-1])
    return losses


def _batches(lengths: list[int], size: int, chance: random.Random) -> list[list[int]]:
    """Shuffled batches of states of like length."""
    order = list(range(len(lengths)))
    chance.shuffle(order)
    batches = []
    for start in range(0, len(order), size * _LENGTH_POOL):
        pool = sorted(order[start : start + size * _LENGTH_POOL], key=lambda i: lengths[i])
        batches += [pool[i : i + size] for i in range(0, len(pool), size)]
    chance.shuffle(batches)
    return batches


def _is_hit(policy: PointerPolicy, step: Step) -> bool:
    """Whether the greedy action does what the lesson does: clicks by element, the rest equal."""
    state, wanted = step
    found = policy.propose(state, samples=1, temperature=1.0, seed=0, greedy=True)[0].action
    if isinstance(wanted, Click) and isinstance(found, Click):
        features = featurize(state, policy.model.config.buckets)
        return choice_of(found, features) == choice_of(wanted, features)
    return found == wanted
