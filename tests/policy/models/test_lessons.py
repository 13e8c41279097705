"""Generated tasks: the same for a seed, sayable, and like real screens in shape."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.actions import Finish
from envs_node.policy.models.pointer.features import choice_of, featurize
from envs_node.policy.models.pointer.lessons import play
from envs_node.policy.models.pointer.recipes import kinds


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_a_seed_always_plays_the_same_lesson(seed: int) -> None:
    assert play(seed) == play(seed)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**9), kind=st.sampled_from(kinds()))
def test_every_step_of_a_lesson_can_be_said(seed: int, kind: str) -> None:
    for state, action in play(seed, kind):
        assert choice_of(action, featurize(state, 256)) is not None


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_a_lesson_ends_by_finishing_and_no_sooner(seed: int) -> None:
    actions = [action for _, action in play(seed)]

    assert [isinstance(action, Finish) for action in actions] == [False] * (len(actions) - 1) + [
        True
    ]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_a_step_sees_the_actions_before_it(seed: int) -> None:
    steps = play(seed)

    for i, (state, _) in enumerate(steps):
        assert state.history == tuple(action for _, action in steps[:i])


def test_many_lessons_are_long_against_an_early_finish() -> None:
    lengths = [len(play(seed)) - 1 for seed in range(300)]

    assert sum(length >= 4 for length in lengths) >= 60
    assert max(lengths) >= 6


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_makes_different_tasks(kind: str) -> None:
    assert len({play(seed, kind)[0][0].instruction for seed in range(20)}) >= 15
