"""How the built-in policy's starting weights are made; apart, so that reading it loads no torch."""

from __future__ import annotations

import msgspec


class BaseSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the starting weights are made."""

    trajectories: int = 4900
    epochs: int = 2
    seed: int = 0
    threads: int = 1
    learning_rate: float = 1e-3
    batch_size: int = 32
    label_smoothing: float = 0.1
    """Keeps the policy under-confident on purpose, so that search has branches."""
    validation_trajectories: int = 100
    width: int = 128
    layers: int = 3
    heads: int = 4
    buckets: int = 2048
