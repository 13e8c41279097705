"""The seam every policy offers to search, evaluation and fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from envs_node.messages.actions import Action
from envs_node.messages.base import EnvsError
from envs_node.messages.propose import Proposal, State


class PolicyError(EnvsError):
    """A policy folder that cannot be used; the message names it and the way out."""


class Policy(Protocol):
    """One frozen policy: what would it do here, and how likely is each of these?"""

    @property
    def name(self) -> str:
        """Name and digest of the weights: two policies with one name propose alike."""

    @property
    def needs_pixels(self) -> bool:
        """Whether `State.observation.frame` must be filled in."""

    def propose(
        self, state: State, *, samples: int, temperature: float, seed: int, greedy: bool = False
    ) -> tuple[Proposal, ...]:
        """Sample actions; equal arguments give equal proposals.

        Greedy takes the likeliest operation with its likeliest argument, the limit of a
        temperature of zero, and gives that one action `samples` times.
        """

    def score(self, state: State, candidates: Sequence[Action]) -> tuple[float, ...]:
        """Log-probability of each candidate at temperature 1, in nats; -inf for none."""

    def entropy(self, state: State) -> float:
        """Entropy of the next action at temperature 1, in nats."""
