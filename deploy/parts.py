"""What nodes are made of beside their actors: the real things, or those of a simulation."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.actors.ledger.actor import Store
from envs_node.actors.ledger.store import LedgerStore
from envs_node.messages.base import ActorName
from envs_node.messages.journal import JournalWriter
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.tasks import Task
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable

PROPOSER = ActorName("proposer")
RESERVE_BYTES = 4 * 1024 * 1024
"""Of disk that a journal keeps for what is under way when the disk is full."""


def free_bytes(folder: Path) -> int:
    """What the disk of a folder still takes from us."""
    return shutil.disk_usage(folder).free


def make_search(task: Task, settings: SearchSettings) -> TaskSearch:
    """A search with an empty tree, as every run and every replay of one begins."""
    return TaskSearch(task, settings, LeaseTable(), proposer=PROPOSER)


class HeadParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a head needs of the world."""

    run_blocking: RunBlocking = run_in_thread
    open_journal: Callable[[Path], JournalWriter] = functools.partial(
        JournalWriter, reserve_bytes=RESERVE_BYTES
    )
    free_bytes: Callable[[Path], int] = free_bytes
    """Of the disk that a folder is on."""
    open_store: Callable[[Path], Store] = functools.partial(LedgerStore, free_bytes_min=0)
    """Of the floor of free space its actor takes care."""
    make_search: Callable[[Task, SearchSettings], TaskSearch] = make_search
    chance: Callable[[], Random] = Random
    """Jitter of a supervisor's back-off."""
