"""From a folder to a policy, and what is no policy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from envs_node.messages.propose import State
from envs_node.policy.backend import PolicyError
from envs_node.policy.models.load import load_policy
from envs_node.policy.models.pointer.lessons import play

BASE = Path(__file__).parents[3] / "deploy" / "base-policy"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"no policy folder .*nowhere: make one with"):
        load_policy(tmp_path / "nowhere")


def test_a_folder_without_a_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"holds no config\.json"):
        load_policy(tmp_path)


@pytest.mark.parametrize("config", ["{}", "[", '{"model_type": "envs-pointer"}', "\ufffd"])
def test_a_card_that_declares_no_dialect_is_refused(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)

    with pytest.raises(PolicyError, match="does not declare model_type, dialect and coord"):
        load_policy(tmp_path)


def test_a_policy_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    card = {"model_type": "qwen2_5_vl", "dialect": "ui-tars", "coordinate_space": "resized"}
    (tmp_path / "config.json").write_text(json.dumps(card))

    with pytest.raises(PolicyError, match=r"is a qwen2_5_vl .ui-tars/resized.; known are"):
        load_policy(tmp_path)


def test_damaged_weights_are_refused(tiny_policy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(tiny_policy, folder)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])

    with pytest.raises(PolicyError, match="cannot be loaded"):
        load_policy(folder)


def test_weights_of_another_network_are_refused(tiny_policy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deeper"
    shutil.copytree(tiny_policy, folder)
    card = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(card | {"layers": 2}))

    with pytest.raises(PolicyError, match="made by another version"):
        load_policy(folder)


def test_an_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(tmp_path)

    assert "\n" not in str(caught.value)


def test_the_committed_policy_proposes() -> None:
    state: State = play(10_000_000)[0][0]

    policy = load_policy(BASE)
    proposals = policy.propose(state, samples=8, temperature=0.7, seed=1)

    assert len(proposals) == 8
    assert policy.name.startswith("base-policy@")
    assert not policy.needs_pixels
    assert (BASE / "model.safetensors").stat().st_size < 2_500_000
