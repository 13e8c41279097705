"""Drives a recorded branch again on a real desktop, by the parts that drove it first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec
import trio

from envs_node.actors.base import Actor
from envs_node.actors.ledger.errors import BlobMismatchError
from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.drift import states_of
from envs_node.deploy.parts import PROPOSER
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.deploy.slots import Desktops
from envs_node.messages.base import ActorName, EnvsError, Message, RunId
from envs_node.messages.journal import Entry, read_journal
from envs_node.messages.ledger import BlobsLacking, BlobStored, BlobsWanted, StoreBlob
from envs_node.messages.search import (
    Assign,
    Idle,
    LeafReached,
    PrefixStep,
    Renew,
    Renewed,
    Step,
    WorkWanted,
)
from envs_node.messages.tasks import FetchTask, Task, TaskFetched
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.tree import Supervisor

_LEASE_MS = 600_000
_BRANCH_S = 900.0
_SHOWN_MAX = 8


class BranchUnknownError(EnvsError):
    """The journal has no report of such a branch, or not under that lease."""


class RedriveError(EnvsError):
    """The branch could not be driven to its end: no desktop came up, or it broke."""


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """A branch as it was recorded, and as it went now."""

    recorded: LeafReached
    now: LeafReached
    pictures: dict[str, bytes]
    """PNG of each frame that was seen now."""


def find_leaf(folder: RunFolder, branch: str, lease: int | None = None) -> LeafReached:
    """The report of a branch: the last that was judged, or that under a lease.

    Raises:
        BranchUnknownError: there is none; names near ones, or the leases there are.
        JournalError: the journal is missing or damaged.
    """
    leaves = list(recorded_leaves(folder))
    mine = [leaf for leaf in leaves if leaf.branch_id == branch]
    if not mine:
        raise BranchUnknownError(_unknown(folder, branch, [leaf.branch_id for leaf in leaves]))
    if lease is not None:
        under = [leaf for leaf in mine if leaf.lease == lease]
        if not under:
            known = ", ".join(dict.fromkeys(str(leaf.lease) for leaf in mine))
            raise BranchUnknownError(f"branch {branch} has no lease {lease}; there are: {known}")
        return under[-1]
    judged = [leaf for leaf in mine if leaf.verdict is not None]
    return (judged or mine)[-1]


def recorded_leaves(folder: RunFolder) -> Iterable[LeafReached]:
    """The reports of all branches, in order.

    Raises:
        JournalError: the journal is missing or damaged.
    """
    return _leaves(read_journal(folder.journal))


def find_task(folder: RunFolder, leaf: LeafReached) -> Task:
    """The task of a branch, with its files.

    Raises:
        RunFolderError: the run does not have it, or its tasks are missing or damaged.
    """
    if not folder.is_run():
        raise RunFolderError(
            f"{folder.path} has no tasks: give the run's folder, which its head keeps"
        )
    for task in folder.load_tasks():
        if task.id == leaf.task_id:
            return task
    raise RunFolderError(f"the run {folder.run} has no task {leaf.task_id}")


def recorded_pictures(folder: RunFolder, leaf: LeafReached) -> dict[str, bytes]:
    """PNG of each frame of a branch that the run's ledger has kept whole."""
    frames = {frame.frame for frame in states_of(leaf) if frame is not None}
    found: dict[str, bytes] = {}
    if not folder.ledger.exists():
        return found
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        for frame in frames:
            try:
                png = store.read_blob(frame)
            except (FileNotFoundError, BlobMismatchError):
                continue
            if png is not None:
                found[frame] = png
    return found


async def redrive(
    leaf: LeafReached, task: Task, checker: CheckerSource, settings: DesktopSettings
) -> Redriven:
    """Drive a branch again, on one desktop that is made for it, and have it judged.

    Raises:
        RedriveError: it could not be driven.
    """
    host = _Host(task, _assignment(leaf, task))
    post = Post(RunId("redrive"))
    desktops = Desktops(post, settings, checker, node="redrive")
    names = ("scheduler", "ledger", f"search/{task.id}")
    children = [ChildSpec(name=name, start=_start(host, ActorName(name), post)) for name in names]
    tree = Supervisor("redrive", [*children, desktops.child()])
    with trio.move_on_after(_BRANCH_S) as waiting:
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            await host.done.wait()
            tree.stop()
    if waiting.cancelled_caught or host.leaf is None:
        raise RedriveError(f"the branch was not done within {_BRANCH_S:g} s")
    now = host.leaf
    if now.reason == "infra":
        raise RedriveError(f"the branch could not be driven ({now.cause}): {now.detail}")
    return Redriven(recorded=leaf, now=now, pictures=host.pictures)


class _Host(Actor[Message]):
    """Stands in for a head, its search and its ledger: has one branch to give, and keeps no run."""

    def __init__(self, task: Task, assign: Assign) -> None:
        self.done = trio.Event()
        self.leaf: LeafReached | None = None
        self.pictures: dict[str, bytes] = {}
        self._task = task
        self._assign = assign

    async def hear(self, message: Message) -> Message | None:
        """Answer as a head would; a desktop that wants more work has handed all in."""
        match message:
            case WorkWanted() if self.leaf is None:
                return self._assign
            case WorkWanted():
                self.done.set()
                return Idle(retry_ms=1000, is_over=True)
            case FetchTask():
                return TaskFetched(task=self._task)
            case Renew(branch_id=branch_id, lease=lease):
                return Renewed(branch_id=branch_id, lease=lease)
            case LeafReached(branch_id=branch_id, lease=lease):
                self.leaf = message
                return Renewed(branch_id=branch_id, lease=lease)
            case BlobsWanted(names=names):
                return BlobsLacking(names=names)
            case StoreBlob(name=name, sha256=sha256, data=data):
                self.pictures[name] = data
                return BlobStored(sha256=sha256)
        return None


def _start(host: _Host, name: ActorName, post: Post) -> Start:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        await run_actor(host, name, post, task_status=task_status)

    return start


def _assignment(leaf: LeafReached, task: Task) -> Assign:
    """All its steps as a prefix. A certification goes on where it strays, and is judged."""
    return Assign(
        branch_id=leaf.branch_id,
        task_id=task.id,
        task_sha256=task.sha256,
        kind="certify",
        lease=leaf.lease,
        lease_ms=_LEASE_MS,
        proposer=PROPOSER,
        prefix=tuple(map(_prefix_step, leaf.steps)),
        steps_max=len(leaf.steps),
        keep_frames="all",
        start=leaf.steps[0].observation.signature if leaf.steps else None,
    )


def _prefix_step(step: Step) -> PrefixStep:
    return PrefixStep(
        action=step.action,
        fingerprint=step.fingerprint,
        reached=step.reached,
        text=step.text,
        log_prob=step.log_prob,
    )


def _leaves(entries: Iterable[Entry]) -> Iterable[LeafReached]:
    """The reports that searches heard; on a desktop node, those that its drivers made."""
    for entry in entries:
        is_report = entry.kind == ("heard" if entry.actor.startswith("search/") else "answered")
        message = entry.envelope.message if entry.envelope is not None else None
        if is_report and isinstance(message, LeafReached):
            yield message


def _unknown(folder: RunFolder, branch: str, known: list[str]) -> str:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(branch, names, n=_SHOWN_MAX, cutoff=0.4) or names[:_SHOWN_MAX]
    shown = ", ".join(near) or "none"
    return f"no report of a branch {branch} in {folder.journal}; near ones: {shown}"
