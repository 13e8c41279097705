"""The conversation between a search and the branches it sends out."""

from __future__ import annotations

from typing import Literal

import msgspec

from envs_node.messages.actions import Action
from envs_node.messages.base import ActorName, BranchId, Message, TaskId
from envs_node.messages.desktop import Observation, Signature
from envs_node.messages.propose import Proposal
from envs_node.messages.status import LeaseStatus
from envs_node.messages.verify import Verdict

BranchKind = Literal["gate", "explore", "rollout", "certify"]
"""`gate` verifies the untouched start, `explore` grows the tree, `rollout` samples alone (eval),
`certify` replays a success on a fresh desktop."""

LeafReason = Literal[
    "finish",
    "fail",
    "step_limit",
    "stuck",
    "refused",
    "diverged",
    "no_proposal",
    "replayed",
    "infra",
]


LossCause = Literal["", "task", "desktop", "policy", "verifier", "head"]
"""Whose fault it was that a branch could not be judged: `task` for a set-up that failed."""

KeepFrames = Literal["all", "certified", "none"]
"""Of which branches the pictures go to the ledger."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Proposals with one fingerprint."""

    fingerprint: str
    proposal: Proposal
    """The likeliest of them; ties go to the first."""
    support: int
    samples: int


class PrefixStep(msgspec.Struct, frozen=True, kw_only=True):
    """An action to replay, and the state it led to."""

    action: Action
    fingerprint: str
    reached: Signature | None = None
    """None where the state was never seen: nothing to compare with."""
    text: str = ""
    log_prob: float = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step a branch took: what it saw, what it did, where that led."""

    observation: Observation
    """Before the action, without the frame."""
    action: Action
    fingerprint: str
    text: str
    log_prob: float
    reached: Signature
    changed: bool
    """Whether the state after differs from the state before."""
    is_replayed: bool = False


class WorkWanted(Message, frozen=True, kw_only=True):
    """A free desktop asks for work. Answered by `Assign` or `Idle`."""

    worker: ActorName
    task_id: TaskId | None = None
    """The task this desktop worked on last; None for any."""


class WorkerFreed(Message, frozen=True, kw_only=True):
    """A worker asks for work, so it holds none: what it had of this task goes to others.

    Told by the scheduler to the search that the worker worked for last.
    """

    worker: ActorName


class Idle(Message, frozen=True, kw_only=True):
    """Answers `WorkWanted`: nothing to do now."""

    retry_ms: int
    is_over: bool = False
    """True when no more work will come: the run has ended."""


class Assign(Message, frozen=True, kw_only=True):
    """Answers `WorkWanted`: drive this branch."""

    branch_id: BranchId
    task_id: TaskId
    task_sha256: str
    kind: BranchKind
    lease: int
    """Fencing number: a report with an older one is refused."""
    lease_ms: int
    """How long the lease holds without `Renew`."""
    proposer: ActorName
    prefix: tuple[PrefixStep, ...] = ()
    strike_off: Bucket | None = None
    """The first new action, after the prefix; None lets the policy choose."""
    steps_max: int = 15
    """Of the whole path, prefix included."""
    samples: int = 8
    temperature: float = 1.0
    is_greedy: bool = False
    fingerprint: Literal["element", "grid"] = "element"
    seed: int = 0
    """Follows from what the branch is, so that driving it again comes out the same."""
    support_min: int = 2
    """So many proposals make a bucket worth a branch of its own."""
    keep_frames: KeepFrames = "certified"
    start: Signature | None = None
    """What the desktop showed when the prefix was recorded; None where nobody has seen that."""
    search_id: int = 0
    """Tells this search from that of the same task in any other run."""


class Renew(Message, frozen=True, kw_only=True):
    """Keep the lease. Answered by `Renewed` or `LeaseLapsed`."""

    branch_id: BranchId
    lease: int


class Renewed(Message, frozen=True, kw_only=True):
    """Answers `Renew`, `NodeReached` and `LeafReached`: heard, and still yours."""

    branch_id: BranchId
    lease: int


class LeaseLapsed(Message, frozen=True, kw_only=True):
    """Refuses a report: the branch is another's now, or the report makes no sense. Stop."""

    branch_id: BranchId
    lease: int
    reason: str


class NodeReached(Message, frozen=True, kw_only=True):
    """The branch stands in a state and has asked the policy.

    Answered by `Renewed` or `LeaseLapsed`.
    """

    branch_id: BranchId
    task_id: TaskId
    lease: int
    depth: int
    """Actions since the start."""
    path: tuple[str, ...]
    """Fingerprints since the start; names the node."""
    signature: Signature
    buckets: tuple[Bucket, ...]
    """Largest support first."""
    followed: str
    """Fingerprint of the bucket this branch goes on with."""
    entropy: float = 0.0


class BranchCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch cost."""

    replayed_actions: int = 0
    forked_actions: int = 0
    """Of the prefix, and not performed: the branch began on a copy of a desktop behind them."""
    new_actions: int = 0
    reset_ms: int = 0
    fork_ms: int = 0
    """For copies that this branch began on, tried to begin on, or left to others."""
    replay_ms: int = 0
    act_ms: int = 0
    propose_ms: int = 0
    verify_ms: int = 0
    wall_ms: int = 0


class ReplayCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay compared with the record."""

    steps: int = 0
    """States compared: the start, where it was recorded, and where each step led."""
    equal: int = 0
    masked: int = 0
    """Equal but for a few tiles of the picture."""
    forked: int = 0
    """Of the steps compared, those that were not performed again."""
    diverged_at: int = -1
    """The first step that differed, from 0; -1 for none."""
    difference: str = ""
    is_start_off: bool = False
    """The start differed already: `difference` says how."""

    @property
    def has_diverged(self) -> bool:
        """Whether it came to stand in another state."""
        return self.is_start_off or self.diverged_at >= 0


class LeafReached(Message, frozen=True, kw_only=True):
    """The branch has ended and was judged. Answered by `Renewed`/`LeaseLapsed`."""

    branch_id: BranchId
    task_id: TaskId
    lease: int
    kind: BranchKind
    is_greedy: bool = False
    reason: LeafReason
    verdict: Verdict | None
    """None when nothing was judged: the replay diverged or the desktop broke."""
    steps: tuple[Step, ...]
    cost: BranchCost
    replay: ReplayCheck
    policy: str = ""
    detail: str = ""
    cause: LossCause = ""
    """Of reason `infra`: whose fault it was."""


class Drive(Message, frozen=True, kw_only=True):
    """Drive one branch to its leaf. Answered by `LeafReached`, which its worker hands on."""

    assign: Assign


class TaskProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the search of one task stands."""

    task_id: TaskId
    template: str
    split: str
    state: Literal["waiting", "running", "solved", "exhausted", "vacuous", "refused"]
    branches: int = 0
    leaves: int = 0
    reassigned: int = 0
    """Branches sent out again: their lease lapsed, or their desktop or their policy broke."""
    lost: int = 0
    """Branches given up after too many losses."""
    refused: int = 0
    """Reports refused because their lease was over."""
    verified: int = 0
    certified: int = 0
    distinct: int = 0
    repeated: int = 0
    """Verified successes on a path that had been found before."""
    uncertified: int = 0
    """Successes that could not be reproduced on a fresh desktop."""
    nodes: int = 0
    replayed_actions: int = 0
    forked_actions: int = 0
    """Steps that a branch neither performed nor replayed: it began on a copy behind them."""
    new_actions: int = 0
    wasted_actions: int = 0
    """Actions of branches that broke; no budget pays for them."""
    replays: int = 0
    replay_mismatches: int = 0
    states_compared: int = 0
    """Of replays and of copies, with the record of them."""
    states_equal: int = 0
    states_masked: int = 0
    verdicts: tuple[tuple[str, int], ...] = ()
    """Verdict class and count."""
    rollouts: tuple[tuple[bool, bool], ...] = ()
    """Of an eval: (is greedy, succeeded) a rollout."""
    detail: str = ""
    """Why it ended; while it runs, why it waits."""
    cause: LossCause = ""
    """Whose fault a `refused` is; empty when the checker or the task says so itself."""


class ProgressWanted(Message, frozen=True, kw_only=True):
    """How far is it? Answered by `Progress`."""

    with_leases: bool = False
    """Whether the branches that are lent are listed, too."""


class Progress(Message, frozen=True, kw_only=True):
    """Answers `ProgressWanted`."""

    tasks: tuple[TaskProgress, ...]
    is_over: bool
    desktops: int = 0
    """Workers heard from within the last lease."""
    reason: str = ""
    """Why the run is paused; empty while it goes on."""
    run: str = ""
    """Of a whole run: which. A head that was restarted may have another on."""
    leases: tuple[LeaseStatus, ...] = ()
    """Filled in for `ProgressWanted` with leases."""


class Tick(Message, frozen=True, kw_only=True):
    """Time has passed: lapse what was not renewed. Told, not asked."""

    is_anew: bool = False
    """All who held a branch went with the process that the run is on in: every lease lapses."""
