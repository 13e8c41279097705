"""The pointer policy as something to train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from envs_node.messages.actions import Action
from envs_node.messages.propose import State
from envs_node.policy.models.pointer.features import Features, choice_of, featurize
from envs_node.policy.models.pointer.model import (
    Batch,
    action_losses,
    chosen_log_probs,
    collate,
    entropies,
)
from envs_node.policy.models.pointer.policy import load_model
from envs_node.policy.models.quiet import quiet_transformers

Item = tuple[Features, tuple[int, int]]
"""A state's features, and the operation and argument to choose."""


class PointerLearner:
    """See `Learner`."""

    def __init__(self, folder: Path) -> None:
        self._model = load_model(folder)

    @property
    def model(self) -> nn.Module:
        """The network."""
        return self._model

    def encode(self, state: State, action: Action, text: str) -> Item | None:
        """Features and choice; the text is not needed, the choice says it all."""
        features = featurize(state, self._model.config.buckets)
        choice = choice_of(action, features)
        return None if choice is None else (features, choice)

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad to one length."""
        batch = collate([features for features, _ in items])
        return {**batch._asdict(), "chosen": torch.tensor([choice for _, choice in items])}

    def losses(self, model: nn.Module, batch: dict[str, Tensor], smoothing: float) -> Tensor:
        """Cross entropy of operation and argument. (batch,)"""
        inputs = dict(batch)
        chosen = inputs.pop("chosen")
        return action_losses(model(Batch(**inputs)), chosen, smoothing)

    def weigh(self, batch: dict[str, Tensor]) -> tuple[list[float], list[float]]:
        """Exact, in one forward pass."""
        inputs = dict(batch)
        chosen = inputs.pop("chosen")
        self._model.train(mode=False)
        with torch.inference_mode():
            choices = self._model(Batch(**inputs))
            return chosen_log_probs(choices, chosen).tolist(), entropies(choices).tolist()

    def save(self, folder: Path) -> None:
        """Weights in single precision, and the card."""
        with quiet_transformers():
            self._model.save_pretrained(folder)
