"""Drives an assigned branch on a fake screen in one go: what a desktop would report of it."""

from __future__ import annotations

import msgspec

from envs_node.messages.actions import Action, Fail, Finish
from envs_node.messages.base import ActorName
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.propose import Proposal
from envs_node.messages.search import (
    Assign,
    BranchCost,
    Bucket,
    LeafReached,
    LeafReason,
    NodeReached,
    ReplayCheck,
    Step,
)
from envs_node.messages.verify import Verdict
from envs_node.policy.agreement import bucket_proposals
from envs_node.policy.fingerprint import fingerprint
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable
from tests.fakes import START, FakeScreen, fake_task, note_screen

COST = BranchCost(reset_ms=300, act_ms=40)
SETTINGS = SearchSettings(
    leaves_task_max=4, successes_task_max=2, steps_max=5, lease_ms=1000, infra_retries_max=1
)
LEASE_NS = 10**9
FAILED = Verdict(verdict="failure", score=0.0)
SUCCEEDED = Verdict(verdict="success", score=1.0)
BROKEN = Verdict(verdict="infra", reason="no answer")
WORKER = ActorName("work/0")


def make_search(settings: SearchSettings = SETTINGS) -> TaskSearch:
    return TaskSearch(fake_task(), settings, LeaseTable(), proposer=ActorName("proposer"))


class _Drive:
    """A branch under way."""

    def __init__(self, screen: FakeScreen, assign: Assign) -> None:
        self.screen = screen
        self.assign = assign
        self.state = START
        self.steps: list[Step] = []
        self.nodes: list[NodeReached] = []

    def act(self, action: Action, *, is_replayed: bool) -> None:
        before = self.screen.observe(self.state)
        after = self.screen.after(self.state, action)
        step = Step(
            observation=before,
            action=action,
            fingerprint=fingerprint(action),
            text="",
            log_prob=-1.0,
            reached=self.screen.observe(after).signature,
            changed=after != self.state,
            is_replayed=is_replayed,
        )
        self.steps.append(step)
        self.state = after

    def choose(self) -> Bucket | None:
        drawn = [
            Proposal(action=action, text="", log_prob=-1.0)
            for action, count in self.screen.proposals.get(self.state, ())
            for _ in range(count)
        ]
        buckets = bucket_proposals(drawn[: self.assign.samples])
        if not buckets:
            return None
        node = NodeReached(
            branch_id=self.assign.branch_id,
            task_id=self.assign.task_id,
            lease=self.assign.lease,
            depth=len(self.steps),
            path=tuple(step.fingerprint for step in self.steps),
            signature=self.screen.observe(self.state).signature,
            buckets=buckets,
            followed=buckets[0].fingerprint,
        )
        self.nodes.append(node)
        return buckets[0]

    def explore(self) -> LeafReason:
        bucket = self.assign.strike_off
        while len(self.steps) < self.assign.steps_max:
            bucket = bucket or self.choose()
            if bucket is None:
                return "no_proposal"
            action = bucket.proposal.action
            self.act(action, is_replayed=False)
            if isinstance(action, Finish | Fail):
                return "finish"
            bucket = None
        return "step_limit"


def drive(screen: FakeScreen, assign: Assign) -> tuple[tuple[NodeReached, ...], LeafReached]:
    """The nodes that this branch reaches, and its leaf."""
    branch = _Drive(screen, assign)
    for step in assign.prefix:
        branch.act(step.action, is_replayed=True)
    reason: LeafReason = "replayed"
    if assign.kind in ("explore", "rollout"):
        reason = branch.explore()
    is_done = branch.state in screen.successes
    leaf = LeafReached(
        branch_id=assign.branch_id,
        task_id=assign.task_id,
        lease=assign.lease,
        kind=assign.kind,
        is_greedy=assign.is_greedy,
        reason=reason,
        verdict=Verdict(verdict="success" if is_done else "failure", score=float(is_done)),
        steps=tuple(branch.steps),
        cost=msgspec.structs.replace(
            COST,
            replayed_actions=len(assign.prefix),
            new_actions=len(branch.steps) - len(assign.prefix),
        ),
        replay=ReplayCheck(),
        policy="" if assign.kind in ("gate", "certify") else "table",
    )
    return (() if assign.kind != "explore" else tuple(branch.nodes)), leaf


def judged(leaf: LeafReached, verdict: Verdict | None) -> LeafReached:
    """The same leaf with another verdict; None is a leaf that was not judged."""
    reason: LeafReason = leaf.reason if verdict is not None else "infra"
    detail = "" if verdict is not None else "set-up step 1: no such file"
    return msgspec.structs.replace(leaf, verdict=verdict, reason=reason, detail=detail)


def lent(search: TaskSearch, now_ns: int = 0) -> Assign:
    """The branch that the one worker is given."""
    answer = search.next_work(WORKER, now_ns)
    assert isinstance(answer, Assign), f"no work: {answer}"
    return answer


def pass_gate(search: TaskSearch) -> None:
    """Find the untouched start not done."""
    search.leaf_reached(drive(note_screen(), lent(search))[1], 0)
