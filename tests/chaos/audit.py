"""The audit: what a run found, and whether anything of it was lost, doubled or misjudged."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import msgspec

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.journal import read_journal
from envs_node.messages.search import LeafReached, Progress

Judged = dict[tuple[str, tuple[str, ...]], set[str]]
"""Verdicts by task and whole path."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's folder says of the run."""

    solved: tuple[str, ...]
    """Tasks with a certified success."""
    paths: int
    """Certified, distinct."""
    paths_sha256: str
    """Of the tasks and paths that were certified, whatever their order."""
    doubled: tuple[str, ...]
    """Trajectories whose id or path is there twice."""
    without_pictures: tuple[str, ...]
    """Certified trajectories of which a screenshot is missing."""
    branches: int
    judged: int
    """Leaves, certifications apart."""
    reassigned: int
    lost: int
    refused: int
    verdicts: dict[str, int]
    states: dict[str, int]
    """Tasks by how they ended."""


def look_into(folder: RunFolder) -> Found:
    """Read the ledger and the last progress of a run."""
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        kept = store.trajectories(certified_only=False)
        bare = [
            t.id
            for t in kept
            if t.is_certified
            and any(store.blob_path(s.observation.signature.frame) is None for s in t.steps)
        ]
    ids = Counter(t.id for t in kept)
    paths = Counter(f"{t.task_id}: {' > '.join(t.path)}" for t in kept)
    data = (folder.path / "progress.json").read_bytes()
    tasks = msgspec.json.decode(data, type=Progress).tasks
    verdicts: Counter[str] = Counter()
    for task in tasks:
        verdicts.update(dict(task.verdicts))
    return Found(
        solved=tuple(sorted({t.task_id for t in kept if t.is_certified})),
        paths=sum(t.is_certified for t in kept),
        paths_sha256=_digest(sorted((t.task_id, t.path) for t in kept if t.is_certified)),
        doubled=tuple(name for name, n in (ids | paths).items() if n > 1),
        without_pictures=tuple(bare),
        branches=sum(task.branches for task in tasks),
        judged=sum(task.leaves for task in tasks),
        reassigned=sum(task.reassigned for task in tasks),
        lost=sum(task.lost for task in tasks),
        refused=sum(task.refused for task in tasks),
        verdicts=dict(verdicts),
        states=dict(Counter(task.state for task in tasks)),
    )


def judged_paths(journal: Path) -> Judged:
    """What was said of each path that was driven to its end and judged on its score."""
    judged: Judged = {}
    for entry in read_journal(journal):
        message = entry.envelope.message if entry.envelope is not None else None
        if not isinstance(message, LeafReached) or message.verdict is None:
            continue
        if message.verdict.verdict in ("success", "failure"):
            path = tuple(step.fingerprint for step in message.steps)
            judged.setdefault((message.task_id, path), set()).add(message.verdict.verdict)
    return judged


def misjudged(undisturbed: Judged, stormy: Judged) -> list[str]:
    """Paths that succeed and yet failed under faults: a fault was scored."""
    found = []
    for key, verdicts in stormy.items():
        known = verdicts | undisturbed.get(key, set())
        if "failure" in verdicts and "success" in known:
            found.append(f"{key[0]}: {' > '.join(key[1])}")
    return found


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()
