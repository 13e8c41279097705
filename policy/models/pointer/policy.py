"""The pointer policy behind the seam: exact probabilities, free draws."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from envs_node.messages.actions import Action, Click, Finish, Key, Target, Type
from envs_node.messages.desktop import Element
from envs_node.messages.propose import Proposal, State
from envs_node.policy.models.pointer import vocabulary
from envs_node.policy.models.pointer.features import Features, choice_of, featurize
from envs_node.policy.models.pointer.model import Choices, PointerModel, collate, entropies
from envs_node.policy.models.quiet import quiet_transformers

_JITTER = 0.12
"""Standard deviation of a click around an element's centre, as a share of its size."""


class PointerPolicy:
    """Chooses by one forward pass a state; all draws of a state share it."""

    needs_pixels = False

    def __init__(self, model: PointerModel, name: str) -> None:
        self.model = model
        self.model.train(mode=False)
        self.name = name

    def propose(
        self, state: State, *, samples: int, temperature: float, seed: int, greedy: bool = False
    ) -> tuple[Proposal, ...]:
        """Sample actions; see `Policy.propose`.

        Raises:
            ValueError: the temperature is not positive, or no sample is wanted.
        """
        if samples < 1 or not (greedy or temperature > 0):
            raise ValueError(f"{samples} samples at temperature {temperature} cannot be drawn")
        features, choices = self._weigh(state)
        chance = random.Random(seed)
        proposals = []
        for _ in range(samples):
            operation, argument = _draw(choices, None if greedy else temperature, chance)
            action = _action(features, operation, argument, None if greedy else chance)
            log_prob = _log_prob(choices, choice_of(action, features))
            proposals.append(Proposal(action=action, text=_words(action), log_prob=log_prob))
        return tuple(proposals)

    def score(self, state: State, candidates: Sequence[Action]) -> tuple[float, ...]:
        """Log-probability of each candidate, in nats; a click counts as the element it hits."""
        features, choices = self._weigh(state)
        return tuple(_log_prob(choices, choice_of(action, features)) for action in candidates)

    def entropy(self, state: State) -> float:
        """Exact entropy of operation and argument, in nats."""
        return float(entropies(self._weigh(state)[1])[0])

    def _weigh(self, state: State) -> tuple[Features, Choices]:
        features = featurize(state, self.model.config.buckets)
        with torch.inference_mode():
            return features, self.model(collate([features]))


def load_pointer(folder: Path) -> PointerPolicy:
    """Load a pointer policy from a folder that is known to hold one."""
    return PointerPolicy(load_model(folder), f"{folder.name}@{_digest(folder)}")


def load_model(folder: Path) -> PointerModel:
    """Load the network in single precision, whatever precision it is kept in.

    Raises:
        ValueError: the weights are those of another network.
    """
    with quiet_transformers():
        loaded: Any = PointerModel.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    model, told = loaded
    wrong = sorted([*told["missing_keys"], *told["unexpected_keys"], *told["mismatched_keys"]])
    if wrong:
        raise ValueError(f"made by another version: {wrong[0]} does not fit")
    assert isinstance(model, PointerModel)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # aligned memory: equal weights, equal sums
    return model


def _given(choices: Choices, operation: int) -> Tensor | None:
    if operation < vocabulary.CLICKS:
        return choices.elements[0, operation]
    return {vocabulary.TYPE: choices.spans[0], vocabulary.KEY: choices.chords[0]}.get(operation)


def _draw(choices: Choices, temperature: float | None, chance: random.Random) -> tuple[int, int]:
    """An operation, then its argument; None takes the likeliest of each."""
    operation = _pick(choices.operations[0], temperature, chance)
    given = _given(choices, operation)
    return operation, 0 if given is None else _pick(given, temperature, chance)


def _pick(log_probs: Tensor, temperature: float | None, chance: random.Random) -> int:
    if temperature is None:
        return int(log_probs.argmax())
    weights = (log_probs.double() / temperature).softmax(-1).tolist()
    return chance.choices(range(len(weights)), weights)[0]


def _action(
    features: Features, operation: int, argument: int, chance: random.Random | None
) -> Action:
    if operation < vocabulary.CLICKS:
        return _click(features.elements[argument - features.first_element], operation, chance)
    if operation == vocabulary.TYPE:
        return Type(text=features.spans[argument].text)
    if operation == vocabulary.KEY:
        return Key(keys=tuple(vocabulary.CHORDS[argument].split("+")))
    return Finish()


def _click(element: Element, operation: int, chance: random.Random | None) -> Click:
    return Click(
        x=_aim(element.x, element.width, chance),
        y=_aim(element.y, element.height, chance),
        button=3 if operation == 2 else 1,
        count=2 if operation == 1 else 1,
        target=Target(role=element.role, name=element.name),
    )


def _aim(start: int, length: int, chance: random.Random | None) -> int:
    """The middle, or near it, and never outside."""
    middle = start + length / 2
    if chance is not None:
        middle += chance.gauss(0.0, _JITTER * length)
    return min(max(int(middle), start), start + length - 1)


def _log_prob(choices: Choices, choice: tuple[int, int] | None) -> float:
    if choice is None:
        return -math.inf
    operation, argument = choice
    given = _given(choices, operation)
    log_prob = float(choices.operations[0, operation])
    log_prob += 0.0 if given is None else float(given[argument])
    return log_prob if log_prob > -1e8 else -math.inf


def _words(action: Action) -> str:
    match action:
        case Click(button=button, count=count, target=Target(role=role, name=name)):
            verb = "right_click" if button == 3 else "double_click" if count == 2 else "click"
            return f"{verb}({role} {name!r})"
        case Type(text=text):
            return f"type({text!r})"
        case Key(keys=keys):
            return f"key({'+'.join(keys)})"
        case _:
            return "finish()"


def _digest(folder: Path) -> str:
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    digest.update((folder / "model.safetensors").read_bytes())
    return digest.hexdigest()[:12]
