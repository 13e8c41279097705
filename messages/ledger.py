"""The conversation with the ledger: what was found, kept exactly once."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from envs_node.messages.base import BranchId, Message, TaskId
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict

BLOBS_WANTED_MAX = 128
"""Names that one question may hold."""
BLOBS_WAIT_MAX_S = 10.0
"""What a branch that proves nothing waits for its pictures to be kept; then they are dropped. Its
desktop has other work to do, and a busy ledger more important things to keep."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """A path from a task's start to a success."""

    id: str
    """Digest of the task's digest and the canonical path: equal paths have equal ids."""
    task_id: TaskId
    task_sha256: str
    template: str
    split: str
    instruction: str
    branch_id: BranchId
    path: tuple[str, ...]
    """Canonical path: the fingerprints of the steps that changed something."""
    steps: tuple[Step, ...]
    verdict: Verdict
    is_certified: bool
    """True when a fresh desktop, driven by these very steps, was judged a success again."""
    policy: str
    success_rate: float
    """Of the judged leaves of this task when this was admitted; a later admission updates it."""


class BlobsWanted(Message, frozen=True, kw_only=True):
    """Which of these pictures has the ledger not? Answered by `BlobsLacking`."""

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=BLOBS_WANTED_MAX)]
    """`Signature.frame` of each."""


class BlobsLacking(Message, frozen=True, kw_only=True):
    """Answers `BlobsWanted`: those to be sent by `StoreBlob`. The others are on disk."""

    names: tuple[str, ...]
    """In the order in which they were asked for, each once."""
    wait_ms: int = 0
    """When to send them. A certified path does not wait; who would wait longer than
    `BLOBS_WAIT_MAX_S` sends nothing, and has no turn."""


class StoreBlob(Message, frozen=True, kw_only=True):
    """Keep these bytes. Answered by `BlobStored` or `BlobRefused`."""

    name: str
    """`Signature.frame`: what the bytes show."""
    sha256: str
    kind: Literal["png"]
    data: bytes


class BlobStored(Message, frozen=True, kw_only=True):
    """Answers `StoreBlob`, the first time and every other."""

    sha256: str


class BlobRefused(Message, frozen=True, kw_only=True):
    """Refuses `StoreBlob`: the digest is not that of the bytes, or there is no room."""

    sha256: str
    reason: str


class Admit(Message, frozen=True, kw_only=True):
    """Keep this success. Answered by `Admitted` or `AlreadyKnown`, durably."""

    trajectory: Trajectory


class Admitted(Message, frozen=True, kw_only=True):
    """Answers `Admit`: it is new, and on disk."""

    trajectory_id: str


class AlreadyKnown(Message, frozen=True, kw_only=True):
    """Answers `Admit`: this canonical path of this task is in the ledger."""

    trajectory_id: str


class TaskOutcome(Message, frozen=True, kw_only=True):
    """A task's tally, for the weights of the fit. Answered by `OutcomeKept`; the latest wins."""

    task_id: TaskId
    template: str
    split: str
    leaves: int
    """Judged leaves: success or failure."""
    successes: int
    state: str


class OutcomeKept(Message, frozen=True, kw_only=True):
    """Answers `TaskOutcome`."""

    task_id: TaskId


class Query(Message, frozen=True, kw_only=True):
    """How much is there? Answered by `LedgerStats`."""


class LedgerStats(Message, frozen=True, kw_only=True):
    """Answers `Query`."""

    trajectories: int
    certified: int
    tasks: int
    templates: int
    steps: int
    distinct_steps: int
    """Steps after each shared one is counted once."""
    blobs: int
