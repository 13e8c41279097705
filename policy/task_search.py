"""Decides what a free desktop should do for one task. No clocks, no chance, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from envs_node.messages.base import ActorName, BranchId
from envs_node.messages.ledger import Trajectory
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import (
    Assign,
    BranchKind,
    Bucket,
    Idle,
    LeafReached,
    LeaseLapsed,
    NodeReached,
    PrefixStep,
    Renewed,
    TaskProgress,
)
from envs_node.messages.tasks import Task
from envs_node.policy.budget import Spent, why_spent
from envs_node.policy.certify import certify_prefixes, to_trajectory
from envs_node.policy.failures import FailureMemory
from envs_node.policy.tally import Tally
from envs_node.policy.tree import Path, Price, Tree

RETRY_MS = 200


class Lease(Protocol):
    """The right to work on a branch."""

    @property
    def item(self) -> BranchId:
        """The branch."""

    @property
    def number(self) -> int:
        """Fencing number: higher than that of every lease before it."""


class Leases(Protocol):
    """Who may work on which branch, until when; `supervisor/lease.py` has the real one."""

    def grant(self, item: BranchId, holder: str, *, now_ns: int, length_ns: int) -> Lease | None:
        """Lend a branch; None while somebody holds it."""

    def renew(self, item: BranchId, number: int, *, now_ns: int, length_ns: int) -> bool:
        """Extend a lease; False when the number is not the holder's."""

    def release(self, item: BranchId, number: int) -> bool:
        """End a lease; False when the number is not the holder's."""

    def lapse(self, now_ns: int) -> Sequence[Lease]:
        """End the leases that were not renewed in time, and return them."""


class Branch(msgspec.Struct, kw_only=True):
    """A piece of work, from the first time it is handed out until it is judged or given up."""

    assign: Assign
    source: LeafReached | None = None
    """Of a certification: the success it must reproduce."""
    losses: int = 0


class TaskSearch:
    """One task's search: what is known, what is under way, and what to do next."""

    def __init__(
        self, task: Task, settings: SearchSettings, leases: Leases, *, proposer: ActorName
    ) -> None:
        self.task = task
        self.tally = Tally()
        self._settings = settings
        self._leases = leases
        self._proposer = proposer
        self._lease_ns = settings.lease_ms * 1_000_000
        self._tree = Tree(settings.support_min, settings.branches_node_max)
        self._failures = FailureMemory()
        self._price = Price()
        self._running: dict[BranchId, Branch] = {}
        self._waiting: list[Branch] = []
        self._answers: dict[tuple[BranchId, int], Renewed | LeaseLapsed] = {}
        """What each holder of a branch was told of its report."""
        self._policy = ""
        self._count = 0
        self._is_gated = False
        self._looks = 0
        self._rollouts_sent = 0
        self._paths: set[Path] = set()
        self._admissions: list[Trajectory] = []
        self._distinct: set[str] = set()
        self._end = ""

    # What a desktop asks -------------------------------------------------------------------

    def next_work(self, worker: ActorName, now_ns: int) -> Assign | Idle:
        """Choose work for a free desktop."""
        self.lapse(now_ns)
        branch = self._choose() if not self._end else None
        if branch is not None:
            return self._lend(branch, worker, now_ns)
        if not self._end and not self._running:
            self._end = self._why_over() or "nothing left to try"
        if self._end:
            return Idle(retry_ms=0, is_over=True)
        return Idle(retry_ms=RETRY_MS)

    def renew(self, branch_id: BranchId, lease: int, now_ns: int) -> Renewed | LeaseLapsed:
        """Extend a lease."""
        is_held = self._leases.renew(branch_id, lease, now_ns=now_ns, length_ns=self._lease_ns)
        if is_held and branch_id in self._running:
            return Renewed(branch_id=branch_id, lease=lease)
        return _lapsed(branch_id, lease)

    def node_reached(self, report: NodeReached, now_ns: int) -> Renewed | LeaseLapsed:
        """Take in a node and what the policy proposed there."""
        answer = self.renew(report.branch_id, report.lease, now_ns)
        if isinstance(answer, Renewed):
            self._tree.add(report.path, report.signature, report.buckets, report.followed)
        return answer

    def leaf_reached(self, report: LeafReached) -> Renewed | LeaseLapsed:
        """Take in how a branch ended. A repeated report is answered alike and counted once."""
        key = (report.branch_id, report.lease)
        if key not in self._answers:
            self._answers[key] = self._first_report(report)
        return self._answers[key]

    def take_admissions(self) -> tuple[Trajectory, ...]:
        """The trajectories that came about since the last call; the ledger must hear of them."""
        taken, self._admissions = tuple(self._admissions), []
        return taken

    def admitted(self, trajectory: Trajectory) -> None:
        """The ledger holds it.

        What is distinct is counted here: the ledger calls a path known, too, when it kept it just
        before a crash, or when it was kept before as one that was not certified.
        """
        if trajectory.is_certified:
            self.tally.certified += 1
            self._distinct.add(trajectory.id)
            self.tally.distinct = len(self._distinct)

    def lapse(self, now_ns: int) -> None:
        """Send out again what was lent and not renewed in time."""
        for lease in self._leases.lapse(now_ns):
            branch = self._running.pop(lease.item, None)
            if branch is not None:
                self._lost(branch, "its desktop was not heard of in time")

    def progress(self) -> TaskProgress:
        """Where this search stands."""
        state = "running" if self._is_gated or self._running else "waiting"
        return self.tally.progress(self.task, state, self._end, len(self._tree))

    @property
    def is_over(self) -> bool:
        """True when no more work will come."""
        return bool(self._end)

    # Choosing ------------------------------------------------------------------------------

    def _choose(self) -> Branch | None:
        if self._waiting:
            return self._waiting.pop(0)
        if not self._is_gated:
            return None if self._running else self._new("gate")
        if self._settings.rollouts:
            return self._next_rollout()
        if self._why_over():
            return None
        if self._looks == 0:
            return self._look()
        return self._strike_off() or self._look_again()

    def _look(self) -> Branch:
        """From the start, following the policy; at more temperature the more often."""
        temperature = self._settings.temperature * (1 + 0.5 * self._looks)
        self._looks += 1
        return self._new("explore", temperature=temperature)

    def _look_again(self) -> Branch | None:
        is_wanted = self.tally.verified == 0 and self._looks < self._settings.looks_max
        return self._look() if is_wanted and not self._running else None

    def _next_rollout(self) -> Branch | None:
        if self._rollouts_sent > self._settings.rollouts:
            return None
        self._rollouts_sent += 1
        return self._new("rollout", is_greedy=self._rollouts_sent == 1)

    def _strike_off(self) -> Branch | None:
        best: tuple[float, Path, Bucket] | None = None
        for node, bucket in self._tree.open_buckets():
            if self._failures.is_proved(node.signature, bucket.fingerprint):
                continue
            chance = self._tree.share(node.path) * bucket.support / bucket.samples
            worth = chance / self._price.of(len(node.path))
            if best is None or worth > best[0]:
                best = (worth, node.path, bucket)
        if best is None:
            return None
        _, path, bucket = best
        self._tree.take(path, bucket.fingerprint)
        return self._new("explore", prefix=self._tree.prefix(path), strike_off=bucket)

    def _why_over(self) -> str:
        exploring = sum(1 for b in self._running.values() if b.assign.kind == "explore")
        spent = Spent(
            leaves=self.tally.leaves + exploring,
            actions=self.tally.replayed_actions + self.tally.new_actions,
            successes=self.tally.distinct,
        )
        return why_spent(spent, self._settings)

    def _new(
        self,
        kind: BranchKind,
        *,
        prefix: tuple[PrefixStep, ...] = (),
        strike_off: Bucket | None = None,
        is_greedy: bool = False,
        temperature: float = 0.0,
        source: LeafReached | None = None,
    ) -> Branch:
        self._count += 1
        settings = self._settings
        assign = Assign(
            branch_id=BranchId(f"{self.task.id}#{self._count}"),
            task_id=self.task.id,
            task_sha256=self.task.sha256,
            kind=kind,
            lease=0,
            lease_ms=settings.lease_ms,
            proposer=self._proposer,
            prefix=prefix,
            strike_off=strike_off,
            steps_max=settings.steps_max,
            samples=1 if kind == "rollout" else settings.samples,
            temperature=temperature or settings.temperature,
            is_greedy=is_greedy,
            fingerprint=settings.fingerprint,
            seed=settings.seed * 1_000_003 + self._count,
        )
        return Branch(assign=assign, source=source)

    def _lend(self, branch: Branch, worker: ActorName, now_ns: int) -> Assign:
        branch_id = branch.assign.branch_id
        lease = self._leases.grant(branch_id, worker, now_ns=now_ns, length_ns=self._lease_ns)
        assert lease is not None, "a branch that waits is held by nobody"
        branch.assign = msgspec.structs.replace(branch.assign, lease=lease.number)
        self._running[branch_id] = branch
        self.tally.branches += 1
        return branch.assign

    # Learning from a leaf --------------------------------------------------------------------

    def _first_report(self, report: LeafReached) -> Renewed | LeaseLapsed:
        branch = self._running.get(report.branch_id)
        if branch is None or not self._leases.release(report.branch_id, report.lease):
            self.tally.refused += 1
            return _lapsed(report.branch_id, report.lease)
        del self._running[report.branch_id]
        self._policy = report.policy or self._policy
        self.tally.add_leaf(report)
        self._learn_price(report)
        if _is_broken(report):
            self._lost(branch, report.verdict.reason if report.verdict else report.detail)
        else:
            self._judged(branch, report)
        return Renewed(branch_id=report.branch_id, lease=report.lease)

    def _lost(self, branch: Branch, why: str) -> None:
        """A branch broke through no fault of its policy: once more, elsewhere, or give up."""
        branch.losses += 1
        if branch.losses <= self._settings.infra_retries_max:
            self.tally.reassigned += 1
            self._waiting.insert(0, branch)
            return
        self.tally.lost += 1
        if branch.assign.kind == "gate":
            self._end = f"the task's start could not be reached: {why}"
            self.tally.refuse()
        elif branch.assign.kind == "certify":
            self._certify_failed(branch)

    def _judged(self, branch: Branch, report: LeafReached) -> None:
        verdict = report.verdict
        assert verdict is not None, "a leaf without a verdict is a lost branch"
        is_success = verdict.verdict == "success"
        if report.kind == "gate":
            self._gated(report)
        elif report.kind == "certify":
            if is_success:
                self._admit(report, is_certified=True)
            else:
                self._certify_failed(branch)
        else:
            # What the checker could not judge proves nothing about the actions before it.
            for step in report.steps if verdict.verdict in ("success", "failure") else ():
                self._failures.record(
                    step.observation.signature, step.fingerprint, is_success=is_success
                )
            if report.kind == "explore" and is_success:
                self._certify(report)

    def _gated(self, report: LeafReached) -> None:
        verdict = report.verdict
        assert verdict is not None, "the gate was judged"
        self._is_gated = True
        if verdict.verdict == "success":
            self._end = "passes when nothing is done"
            self.tally.state = "vacuous"
        elif verdict.verdict != "failure":
            self._end = f"{verdict.verdict}: {verdict.reason}"
            self.tally.refuse()

    def _certify(self, report: LeafReached) -> None:
        trimmed = certify_prefixes(report)[0]
        path = tuple(step.fingerprint for step in trimmed)
        if path in self._paths:
            self.tally.repeated += 1
            return
        self._paths.add(path)
        self._waiting.insert(0, self._new("certify", prefix=trimmed, source=report))

    def _certify_failed(self, branch: Branch) -> None:
        source = branch.source
        assert source is not None, "a certification has its success"
        full = certify_prefixes(source)[-1]
        if len(branch.assign.prefix) == len(full):
            self.tally.uncertified += 1
            self._admit(source, is_certified=False)
            return
        self._waiting.insert(0, self._new("certify", prefix=full, source=source))

    def _admit(self, leaf: LeafReached, *, is_certified: bool) -> None:
        trajectory = to_trajectory(
            self.task,
            # A certification asks no policy; its path is that of the policy that searches.
            msgspec.structs.replace(leaf, policy=leaf.policy or self._policy),
            self._settings.fingerprint,
            success_rate=self.tally.success_rate(),
            is_certified=is_certified,
        )
        self._admissions.append(trajectory)

    def _learn_price(self, report: LeafReached) -> None:
        cost = report.cost
        steps = cost.new_actions + cost.replayed_actions
        if cost.reset_ms:
            steps_ms = cost.act_ms + cost.replay_ms + cost.propose_ms
            self._price.learn(reset_ms=cost.reset_ms, steps=steps, steps_ms=steps_ms)


def _is_broken(report: LeafReached) -> bool:
    return report.verdict is None or report.verdict.verdict == "infra"


def _lapsed(branch_id: BranchId, lease: int) -> LeaseLapsed:
    return LeaseLapsed(
        branch_id=branch_id, lease=lease, reason="the lease is over: the branch is another's now"
    )
