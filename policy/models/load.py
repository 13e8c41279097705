"""From a folder to a policy: reads its card and refuses what is none."""

from __future__ import annotations

from pathlib import Path

import msgspec

from envs_node.policy.backend import Policy, PolicyError


class PolicyCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy's `config.json` must declare."""

    model_type: str
    dialect: str
    """How its words become actions."""
    coordinate_space: str
    """What its points are measured in."""


_KINDS = {"envs-pointer": ("pointer", "screen")}
"""Model types that can be loaded, with their dialect and coordinate space."""


def read_card(folder: Path) -> PolicyCard:
    """Read a policy folder's card.

    Raises:
        PolicyError: there is no such folder, or it holds no policy of a kind that is known.
    """
    way_out = "make one with `envs-node policy make-base`, or name another folder"
    if not folder.is_dir():
        raise PolicyError(f"no policy folder {folder}: {way_out}")
    config = folder / "config.json"
    if not config.is_file():
        raise PolicyError(f"{folder} holds no config.json, so it is no policy: {way_out}")
    try:
        card = msgspec.json.decode(config.read_bytes(), type=PolicyCard)
    except msgspec.MsgspecError as error:
        raise PolicyError(
            f"{config} does not declare model_type, dialect and coordinate_space ({error}):"
            f" {way_out}"
        ) from error
    if _KINDS.get(card.model_type) != (card.dialect, card.coordinate_space):
        known = ", ".join(f"{kind} ({'/'.join(_KINDS[kind])})" for kind in sorted(_KINDS))
        raise PolicyError(
            f"{folder} is a {card.model_type} ({card.dialect}/{card.coordinate_space});"
            f" known are {known}: {way_out}"
        )
    if not (folder / "model.safetensors").is_file():
        raise PolicyError(f"{folder} holds no model.safetensors: {way_out}")
    return card


def load_policy(folder: Path) -> Policy:
    """Load the policy that a folder holds.

    Raises:
        PolicyError: the folder is missing, is of another kind, or its weights are damaged.
    """
    read_card(folder)
    from safetensors import SafetensorError  # slow to import; not every process has a policy

    from envs_node.policy.models.pointer.policy import load_pointer

    try:
        return load_pointer(folder)
    except (SafetensorError, RuntimeError, ValueError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PolicyError(f"the weights in {folder} cannot be loaded: {first}") from error
