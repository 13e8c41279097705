"""The conversation with a proposer: what would the policy do here?"""

from __future__ import annotations

import msgspec

from envs_node.messages.actions import Action
from envs_node.messages.base import Message
from envs_node.messages.desktop import Observation


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy sees before it chooses."""

    instruction: str
    observation: Observation
    history: tuple[Action, ...] = ()
    """The actions of this branch so far, oldest first."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled action."""

    action: Action
    text: str
    """The model's own words: the training target of a text policy."""
    log_prob: float
    """log p(action | state) at temperature 1, in nats."""


class Propose(Message, frozen=True, kw_only=True):
    """Sample `samples` actions. Answered by `Proposed` or `ProposeFailed`."""

    state: State
    samples: int
    temperature: float
    seed: int
    greedy: bool = False
    """The most likely action instead of draws."""


class Proposed(Message, frozen=True, kw_only=True):
    """Answers `Propose`."""

    proposals: tuple[Proposal, ...]
    policy: str
    """Name and digest of the policy that proposed."""
    entropy: float
    """Of the policy at this state and temperature 1, in nats."""
    propose_ms: int


class Score(Message, frozen=True, kw_only=True):
    """How likely is each of these? Answered by `Scored` or `ProposeFailed`."""

    state: State
    candidates: tuple[Action, ...]


class Scored(Message, frozen=True, kw_only=True):
    """Answers `Score`; -inf for an action the policy cannot express."""

    log_probs: tuple[float, ...]
    policy: str


class ProposeFailed(Message, frozen=True, kw_only=True):
    """Refuses `Propose` and `Score`."""

    reason: str
