"""A task's search ends at the first limit that is reached, and says which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.lifecycle import SearchSettings
from envs_node.policy.budget import Spent, why_spent

SETTINGS = SearchSettings(leaves_task_max=8, successes_task_max=3, actions_task_max=200)


@pytest.mark.parametrize(
    ("spent", "limit"),
    [
        (Spent(successes=3), "successes_task_max"),
        (Spent(leaves=8), "leaves_task_max"),
        (Spent(actions=200), "actions_task_max"),
    ],
)
def test_the_limit_that_is_reached_is_named(spent: Spent, limit: str) -> None:
    assert limit in why_spent(spent, SETTINGS)


@given(st.integers(0, 7), st.integers(0, 199), st.integers(0, 2))
def test_below_every_limit_there_is_budget(leaves: int, actions: int, successes: int) -> None:
    spent = Spent(leaves=leaves, actions=actions, successes=successes)

    assert why_spent(spent, SETTINGS) == ""
