"""The names of fork points: a task, and the actions that lead from its start."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from envs_node.messages.actions import Action
from envs_node.messages.tasks import Task

_encoder = msgspec.msgpack.Encoder()


def prefix_keys(task: Task, actions: Sequence[Action]) -> tuple[str, ...]:
    """The key of the start, and of the state after each action: one more than there are actions.

    Everything of the task counts, for its set-up is what a clone needs no more.
    """
    digest = hashlib.sha256(_encoder.encode(task))
    keys = [digest.hexdigest()]
    for action in actions:
        digest.update(hashlib.sha256(_encoder.encode(action)).digest())
        keys.append(digest.hexdigest())
    return tuple(keys)
