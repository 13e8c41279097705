"""What a task may still spend."""

from __future__ import annotations

import msgspec

from envs_node.messages.lifecycle import SearchSettings


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a task has cost so far."""

    leaves: int = 0
    """Judged leaves, certifications apart, with those still on their way."""
    actions: int = 0
    """Desktop actions, replayed ones included."""
    successes: int = 0
    """Distinct certified successes."""


def why_spent(spent: Spent, settings: SearchSettings) -> str:
    """Say which limit is reached; empty while there is budget left."""
    if spent.successes >= settings.successes_task_max:
        return f"{spent.successes} distinct successes (successes_task_max)"
    if spent.leaves >= settings.leaves_task_max:
        return f"{spent.leaves} leaves (leaves_task_max)"
    if spent.actions >= settings.actions_task_max:
        return f"{spent.actions} actions (actions_task_max)"
    return ""
