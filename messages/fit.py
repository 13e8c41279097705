"""The conversation with a trainer."""

from __future__ import annotations

import msgspec

from envs_node.messages.base import Message


class FitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to fit."""

    learning_rate: float = 2e-4
    batch_size: int = 4
    epochs: int = 1
    label_smoothing: float = 0.0
    hard_beta: float = 0.5
    """Weight of an example is (1 - success rate of its task) ** beta, mean 1."""
    weight_max: float = 4.0
    """Cap of a weight, after the mean was set to 1."""
    certified_only: bool = True
    checkpoint_steps: int = 20
    seed: int = 0
    threads: int = 1


class Fit(Message, frozen=True, kw_only=True):
    """Fit a policy on a ledger; goes on from a checkpoint.

    Answered by `FitRunning` at once while it is under way: ask again, with the same `fit_id`.
    In the end answered by `Fitted` or `FitFailed`.
    """

    fit_id: str
    ledger: str
    """Path of the ledger's database file."""
    base: str
    """Folder of the policy to start from."""
    out: str
    """Folder of the fitted policy; checkpoints lie in `<out>/checkpoints`."""
    settings: FitSettings = FitSettings()


class FitRunning(Message, frozen=True, kw_only=True):
    """Answers `Fit` while it is under way."""

    fit_id: str
    step: int
    """Optimizer steps done."""
    steps: int
    """Optimizer steps in all; 0 while the examples are being read."""
    waits_for: str = ""
    """The fit that is under way when it is another one: the numbers are of that, and this one
    begins when it is asked for after the end of that."""


class FitReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a fit did."""

    trajectories: int
    examples_before_sharing: int
    examples: int
    """After each shared step is counted once."""
    optimizer_steps: int
    loss_first: float
    """Weighted loss, in nats: mean of the first quarter of the optimizer steps."""
    loss_last: float
    """The same of the last quarter. Each step has examples of its own, so that in one epoch the
    two differ by how hard those are, too."""
    weight_min: float
    weight_max: float
    log_ratio: float
    """Mean of log p_new - log p_old on the examples, in nats."""
    effective_sample_size: float
    """Of the importance weights p_new / p_old, as a share of the examples."""
    entropy_before: float
    entropy_after: float
    wall_s: float
    resumed: bool = False


class Fitted(Message, frozen=True, kw_only=True):
    """Answers `Fit`."""

    fit_id: str
    policy: str
    """Folder of the fitted policy."""
    report: FitReport


class FitFailed(Message, frozen=True, kw_only=True):
    """Refuses `Fit`: no examples, no such policy."""

    fit_id: str
    reason: str
