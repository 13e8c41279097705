"""How tasks start on this node: a desktop that starts unlike its peers is not used.

A window that nobody asked for (a notification, say) covers what the policy looks for, and leads its
branch away from all others. Identical set-ups must end with the same windows.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TypeAlias

import structlog

from envs_node.messages.tasks import Task

Titles: TypeAlias = "tuple[str, ...]"
_TASKS_MAX = 4096
_log = structlog.get_logger(__name__)


class Starts:
    """The windows with which each task starts. One a node; safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Titles] = OrderedDict()

    def admits(self, task: Task, windows: Titles) -> bool:
        """Whether a desktop has started as the first one did that was asked about."""
        with self._lock:
            known = self._known.setdefault(_key(task), windows)
            self._known.move_to_end(_key(task))
            if len(self._known) > _TASKS_MAX:
                self._known.popitem(last=False)
        if known != windows:
            _log.warning("start.differed", task_id=task.id, windows=windows, expected=known)
        return known == windows

    def settle(self, task: Task, refused: Titles, again: Titles) -> None:
        """Take in what a second start showed after one was refused.

        Two that agree outvote the first one, which was the odd one then. Where all differ, the task
        does not start the same way twice; it is used as it is, and its replays will tell.
        """
        with self._lock:
            known = self._known.get(_key(task))
            if refused == again:
                self._known[_key(task)] = again
        if known != again:
            _log.warning(
                "start.unsettled", task_id=task.id, windows=again, outvotes=refused == again
            )


def _key(task: Task) -> bytes:
    return hashlib.sha256(task.json).digest()
