"""The loss of a batch: each example's own, times its weight."""

from __future__ import annotations

from torch import Tensor


def weighted_loss(losses: Tensor, weights: Tensor) -> Tensor:
    """Mean over the batch of loss times weight, both (batch,).

    It is divided by the number of examples and not by the batch's weights: weights have a mean of
    1 over the whole set, so a batch of hard examples pulls harder than one of easy ones.
    """
    assert losses.dim() == 1, losses.shape
    assert losses.shape == weights.shape, (losses.shape, weights.shape)
    return (losses * weights).mean()
