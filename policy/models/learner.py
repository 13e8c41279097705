"""The seam a fit needs of a policy that can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from envs_node.messages.actions import Action
from envs_node.messages.propose import State
from envs_node.policy.models.load import read_card


class Learner(Protocol):
    """A model, and how states and actions become its input. Items are the learner's own."""

    @property
    def model(self) -> nn.Module:
        """The network, changed in place by training."""

    def encode(self, state: State, action: Action, text: str) -> Any | None:
        """One item to learn; None when the policy cannot say this action here."""

    def collate(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """A batch of items, by argument name."""

    def losses(self, model: nn.Module, batch: dict[str, Tensor], smoothing: float) -> Tensor:
        """Loss of each item, in nats. (batch,)"""

    def weigh(self, batch: dict[str, Tensor]) -> tuple[list[float], list[float]]:
        """Log-probability of each item's action, and entropy of its state, in nats."""

    def save(self, folder: Path) -> None:
        """Write a policy folder that `load_policy` takes."""


def load_learner(folder: Path) -> Learner:
    """Load a policy to be trained.

    Raises:
        PolicyError: the folder is missing, or holds no policy that can be trained here.
    """
    read_card(folder)
    from envs_node.policy.models.pointer.learner import PointerLearner

    return PointerLearner(folder)
