"""Starting weights: the same for a seed, better than before training, saved and loaded whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from envs_node.policy.models.pointer.base_settings import BaseSettings
from envs_node.policy.models.pointer.lessons import play
from envs_node.policy.models.pointer.make_base import make_base
from envs_node.policy.models.pointer.policy import load_model, load_pointer
from envs_node.policy.models.quiet import quiet_transformers


def test_equal_settings_make_equal_weights(
    tiny_policy: Path, tiny_settings: BaseSettings, tmp_path: Path
) -> None:
    make_base(tmp_path / "again", tiny_settings)
    make_base(tmp_path / "other", msgspec.structs.replace(tiny_settings, seed=1))

    weights = (tiny_policy / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == weights
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != weights


def test_training_lowers_the_loss_and_tells_how_far_it_is(
    tiny_settings: BaseSettings, tmp_path: Path
) -> None:
    told: list[tuple[int, int, float]] = []

    report = make_base(tmp_path / "p", tiny_settings, lambda *now: told.append(now))

    assert [(done, of) for done, of, _ in told] == [(1, 2), (2, 2)]
    assert report.loss_last < report.loss_first
    assert report.parameters < 200_000
    assert 0 <= report.step_accuracy <= 1


def test_the_global_random_state_is_left_alone(tiny_settings: BaseSettings, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()

    make_base(tmp_path / "p", tiny_settings)

    assert torch.equal(torch.random.get_rng_state(), before)


def test_saving_and_loading_keeps_every_log_probability(tiny_policy: Path, tmp_path: Path) -> None:
    policy = load_pointer(tiny_policy)
    with quiet_transformers():
        load_model(tiny_policy).save_pretrained(tmp_path / "copy")
    copy = load_pointer(tmp_path / "copy")

    for state, action in play(11):
        assert policy.score(state, [action]) == copy.score(state, [action])
