"""The network: a small transformer over words, past actions and elements, with three pointers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig, PreTrainedModel

from envs_node.policy.models.pointer import vocabulary
from envs_node.policy.models.pointer.features import ELEMENT, PADDING, PAST, WORD, Features
from envs_node.policy.models.pointer.spans import SPAN_KINDS
from envs_node.policy.models.pointer.text import GRAMS, WORDS_MAX

_IMPOSSIBLE = -1e9
"""Logit of what cannot be chosen."""
_NEIGHBOURS = (-1, 1, 2)
"""Distances between words that get a learned attention bias."""


class PointerConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]  # its base has no types
    """Sizes of the pointer policy, and its card: dialect and coordinate space."""

    model_type = "envs-pointer"

    def __init__(
        self,
        width: int = 128,
        layers: int = 3,
        heads: int = 4,
        buckets: int = 2048,
        dialect: str = "pointer",
        coordinate_space: str = "screen",
        **rest: Any,
    ) -> None:
        self.width = width
        self.layers = layers
        self.heads = heads
        self.buckets = buckets
        self.dialect = dialect
        self.coordinate_space = coordinate_space
        super().__init__(**rest)


class Batch(NamedTuple):
    """Features of several states, padded; b states, t tokens, s spans."""

    types: Tensor  # (b, t)
    grams: Tensor  # (b, t, grams)
    kinds: Tensor  # (b, t)
    positions: Tensor  # (b, t)
    matches: Tensor  # (b, t)
    attributes: Tensor  # (b, t, attributes)
    same_case: Tensor  # (b, t)
    used: Tensor  # (b, t)
    spans: Tensor  # (b, s, 4): token of the first and last word, kind, used; -1 for none
    chords: Tensor  # (b, chords, 2): place in the instruction, used


class Choices(NamedTuple):
    """Log-probabilities of what can be chosen, in nats."""

    operations: Tensor  # (b, operations)
    elements: Tensor  # (b, clicks, t), given the click
    spans: Tensor  # (b, s), given `type`
    chords: Tensor  # (b, chords), given `key`


class PointerModel(PreTrainedModel):  # type: ignore[no-untyped-call]  # its base has no types
    """About a million parameters; text similarity enters as an additive attention bias."""

    config_class = PointerConfig
    base_model_prefix = "pointer"

    def __init__(self, config: PointerConfig) -> None:
        super().__init__(config)
        width = config.width
        self.gram = nn.EmbeddingBag(
            config.buckets + 1, width, mode="mean", padding_idx=config.buckets
        )
        self.token_type = nn.Embedding(5, width)
        self.operation = nn.Embedding(len(vocabulary.OPERATIONS), width)
        self.kind = nn.Embedding(len(vocabulary.KINDS), width)
        self.position = nn.Embedding(WORDS_MAX + 1, width)
        self.match = nn.Embedding(WORDS_MAX + 1, width)
        self.used = nn.Embedding(2, width)
        self.same_case = nn.Embedding(2, width)
        self.attribute = nn.Sequential(
            nn.Linear(4 + len(vocabulary.STATES), width), nn.GELU(), nn.Linear(width, width)
        )
        self.blocks = nn.ModuleList(_Block(width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.to_operation = nn.Linear(width, len(vocabulary.OPERATIONS) - 1)
        self.to_chord = nn.Linear(width, len(vocabulary.CHORDS))
        self.chord_query = nn.Linear(width, width)
        self.element_query = nn.Linear(width, vocabulary.CLICKS * width)
        self.element_key = nn.Linear(width, width)
        self.span_query = nn.Linear(width, width)
        self.span_first = nn.Linear(width, width)
        self.span_last = nn.Linear(width, width)
        self.span_kind = nn.Embedding(len(SPAN_KINDS), width)
        self.span_used = nn.Embedding(2, width)
        self.post_init()  # type: ignore[no-untyped-call]  # transformers has no types here

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the initial values of torch: they are what was measured."""

    def forward(self, batch: Batch) -> Choices:
        """Read the states and weigh every choice."""
        tokens = self._embed(batch)  # (b, t, width)
        bias = _similarities(batch, self.config.buckets)  # (b, 1 + neighbours, t, t)
        mask = torch.where(batch.types == PADDING, _IMPOSSIBLE, 0.0)[:, None, None, :]
        for block in self.blocks:
            tokens = block(tokens, bias, mask)
        tokens = self.norm(tokens)
        return self._choices(tokens, batch)

    def _embed(self, batch: Batch) -> Tensor:
        types, kinds = batch.types, batch.kinds
        states, length = types.shape
        grams = self.gram(batch.grams.view(states * length, GRAMS)).view(states, length, -1)
        past = (types == PAST)[..., None]
        element = (types == ELEMENT)[..., None]
        tokens = grams + self.token_type(types) + self.match(batch.matches) + self.used(batch.used)
        tokens = tokens + self.position(batch.positions) + self.same_case(batch.same_case)
        tokens = tokens + past * self.operation(kinds * past[..., 0])
        shape = self.kind(kinds * element[..., 0]) + self.attribute(batch.attributes)
        result: Tensor = tokens + element * shape
        return result

    def _choices(self, tokens: Tensor, batch: Batch) -> Choices:
        states = len(tokens)
        summary = tokens[:, 0]  # (b, width)
        scale = math.sqrt(self.config.width)
        queries = self.element_query(summary).view(states, vocabulary.CLICKS, -1)
        elements = queries @ self.element_key(tokens).transpose(1, 2) / scale
        can_click = (batch.types == ELEMENT) & _clickable(batch.kinds)
        elements = elements.masked_fill(~can_click[:, None], _IMPOSSIBLE)
        spans = self._weigh_spans(tokens, batch.spans)
        operations = self.to_operation(summary)
        has_none = torch.zeros_like(operations, dtype=torch.bool)
        has_none[:, : vocabulary.CLICKS] = ~can_click.any(1, keepdim=True)
        has_none[:, vocabulary.TYPE] = (batch.spans[..., 0] < 0).all(1)
        named = self.match(batch.chords[..., 0]) + self.used(batch.chords[..., 1])
        named = (self.chord_query(summary)[:, None] * named).sum(-1) / scale
        chords = self.to_chord(summary) + named  # (b, chords)
        return Choices(
            operations.masked_fill(has_none, _IMPOSSIBLE).float().log_softmax(-1),
            elements.float().log_softmax(-1),
            spans.float().log_softmax(-1),
            chords.float().log_softmax(-1),
        )

    def _weigh_spans(self, tokens: Tensor, spans: Tensor) -> Tensor:
        known = spans.clamp(min=0)
        rows = torch.arange(len(tokens))[:, None]
        keys = self.span_first(tokens[rows, known[..., 0]])
        keys = keys + self.span_last(tokens[rows, known[..., 1]])
        keys = keys + self.span_kind(known[..., 2]) + self.span_used(known[..., 3])
        logits: Tensor = (self.span_query(tokens[:, 0])[:, None] * keys).sum(-1)
        logits = logits / math.sqrt(self.config.width)
        return logits.masked_fill(spans[..., 0] < 0, _IMPOSSIBLE)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.lexical = nn.Parameter(torch.full((heads,), 2.0))
        self.neighbour = nn.Parameter(torch.zeros(heads, len(_NEIGHBOURS)))
        self.mix_norm = nn.LayerNorm(width)
        self.mix = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        states, length, width = tokens.shape
        mixed = self.query_key_value(self.attention_norm(tokens))
        query, key, value = mixed.view(states, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scales = torch.cat([self.lexical[:, None], self.neighbour], 1)  # (heads, 1 + neighbours)
        bias = torch.einsum("bnij,hn->bhij", bias, scales) + mask
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        tokens = tokens + self.output(seen.transpose(1, 2).reshape(states, length, width))
        result: Tensor = tokens + self.mix(self.mix_norm(tokens))
        return result


def collate(features: Sequence[Features]) -> Batch:
    """Pad states to one length."""
    length = max(len(one.types) for one in features)
    spans = max(1, max(len(one.spans) for one in features))
    blank = (0.0,) * len(features[0].attributes[0])
    empty = (features[0].grams[0][-1],) * GRAMS  # a blank text ends in padding

    def pad(rows: list[list[int]], value: int) -> Tensor:
        return torch.tensor([row + [value] * (length - len(row)) for row in rows])

    return Batch(
        types=pad([one.types for one in features], PADDING),
        grams=torch.tensor([one.grams + [empty] * (length - len(one.grams)) for one in features]),
        kinds=pad([one.kinds for one in features], 0),
        positions=pad([one.positions for one in features], 0),
        matches=pad([one.matches for one in features], 0),
        attributes=torch.tensor(
            [one.attributes + [blank] * (length - len(one.attributes)) for one in features]
        ),
        same_case=pad([one.same_case for one in features], 0),
        used=pad([one.used for one in features], 0),
        spans=torch.tensor([_span_rows(one, spans) for one in features]),
        chords=torch.tensor(
            [list(zip(one.chord_matches, one.chord_used, strict=True)) for one in features]
        ),
    )


def chosen_log_probs(choices: Choices, chosen: Tensor) -> Tensor:
    """Log-probability of one (operation, argument) a state; `chosen` is (b, 2), the result (b,)."""
    rows = torch.arange(len(chosen))
    operation, argument = chosen[:, 0], chosen[:, 1]
    result = choices.operations[rows, operation]
    for taken, given in _arguments(choices, operation):
        index = torch.where(taken, argument, 0)
        result = result + torch.where(taken, given[rows, index], 0.0)
    return result


def action_losses(choices: Choices, chosen: Tensor, smoothing: float) -> Tensor:
    """Cross entropy of each state's choice, in nats, smoothed over what is possible. (b,)"""
    rows = torch.arange(len(chosen))
    operation, argument = chosen[:, 0], chosen[:, 1]
    result = _smoothed(choices.operations, operation, smoothing)
    for taken, given in _arguments(choices, operation):
        index = torch.where(taken, argument, 0)
        loss = _smoothed(given[rows], index, smoothing)
        result = result + torch.where(taken, loss, 0.0)
    return result


def entropies(choices: Choices) -> Tensor:
    """Exact entropy of operation and argument, in nats. (b,)"""
    operations = choices.operations.exp()
    clicks = operations[:, : vocabulary.CLICKS] * _entropy(choices.elements)
    total = _entropy(choices.operations) + clicks.sum(1)
    total = total + operations[:, vocabulary.TYPE] * _entropy(choices.spans)
    return total + operations[:, vocabulary.KEY] * _entropy(choices.chords)


def _entropy(log_probs: Tensor) -> Tensor:
    return -(log_probs.exp() * log_probs.clamp(min=-100.0)).sum(-1)


def _arguments(choices: Choices, operation: Tensor) -> list[tuple[Tensor, Tensor]]:
    rows = torch.arange(len(operation))
    clicks = choices.elements[rows, operation.clamp(max=vocabulary.CLICKS - 1)]
    return [
        (operation < vocabulary.CLICKS, clicks),
        (operation == vocabulary.TYPE, choices.spans),
        (operation == vocabulary.KEY, choices.chords),
    ]


def _smoothed(log_probs: Tensor, index: Tensor, smoothing: float) -> Tensor:
    hit = -log_probs.gather(1, index[:, None])[:, 0]
    if not smoothing:
        return hit
    possible = log_probs > _IMPOSSIBLE / 2
    spread = -torch.where(possible, log_probs, 0.0).sum(-1) / possible.sum(-1).clamp(min=1)
    return (1 - smoothing) * hit + smoothing * spread


def _span_rows(features: Features, length: int) -> list[tuple[int, int, int, int]]:
    rows = [
        (1 + span.first, 1 + span.last, span.kind, used)
        for span, used in zip(features.spans, features.span_used, strict=True)
    ]
    return rows + [(-1, -1, -1, -1)] * (length - len(rows))


def _clickable(kinds: Tensor) -> Tensor:
    table = torch.tensor([vocabulary.is_clickable(i) for i in range(len(vocabulary.KINDS))])
    return table[kinds]


@torch.no_grad()
def _similarities(batch: Batch, buckets: int) -> Tensor:
    """Cosine of trigram sets, and which words are neighbours. (b, 1 + neighbours, t, t)"""
    states, length, _ = batch.grams.shape
    sets = torch.zeros(states, length, buckets + 1).scatter_(2, batch.grams, 1.0)[..., :buckets]
    sets = sets / (sets.norm(dim=-1, keepdim=True) + 1e-6)
    cosine = (sets @ sets.transpose(1, 2)) * (1 - torch.eye(length))
    word = batch.types == WORD
    both = word[:, None] & word[..., None]
    apart = batch.positions[:, None, :] - batch.positions[:, :, None]
    near = [((apart == distance) & both).float() for distance in _NEIGHBOURS]
    return torch.stack([cosine, *near], 1)
