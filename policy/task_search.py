"""Decides what a free desktop should do for one task. No clocks, no chance, no I/O.

What a branch does follows from what it is: its seed, its temperature and its place in the tree do
not depend on when it was handed out, to whom, or how often it broke. So, while no budget binds, any
order of events ends in the same tree and the same successes. What still depends on the order: which
branches are bought when a budget cuts the search short (the next one is chosen by what is known
and by measured prices), whether a failure seen in an equal state came early enough to spare a
branch, and, of two successes that differ only in steps without effect, which one is certified.
"""

from __future__ import annotations

from collections import OrderedDict

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
    LossCause,
    NodeReached,
    Renewed,
    TaskProgress,
)
from envs_node.messages.status import LeaseStatus
from envs_node.messages.tasks import Task
from envs_node.policy.assignments import Assignments, origin_of, why_not_its_leaf
from envs_node.policy.branches import OWN_CAUSES, Branch, Branches, Leases
from envs_node.policy.budget import Spent, why_spent
from envs_node.policy.certify import Successes
from envs_node.policy.failures import FailureMemory
from envs_node.policy.patience import Patience
from envs_node.policy.tally import Tally, why_no_start
from envs_node.policy.tree import Path, Price, Tree

RETRY_MS = 200
_RETRY_MS_MAX = 5_000
"""While the policy rests; what needs no policy may be there to be done earlier."""
_ANSWERS_MAX = 4096
_ASK: tuple[BranchKind, ...] = ("explore", "rollout")
_LAPSED = "the lease is over: the branch is another's now"
_UNHEARD = "its desktop was not heard of in time"


class TaskSearch:
    """One task's search: what is known, what is under way, and what to do next."""

    def __init__(
        self, task: Task, settings: SearchSettings, leases: Leases, *, proposer: ActorName
    ) -> None:
        self.task = task
        self.tally = Tally()
        self._settings = settings
        self._leases = leases
        self._assignments = Assignments(task, settings, proposer)
        self._tree = Tree(settings.support_min, settings.branches_node_max)
        self._failures = FailureMemory()
        self._price = Price()
        self._branches = Branches(leases, settings)
        self._answers: OrderedDict[tuple[BranchId, int], Renewed | LeaseLapsed] = OrderedDict()
        """What each holder of a branch was told of its report."""
        self._is_gated = False
        self._looks = 0
        self._rollouts_sent = 0
        self._successes = Successes(task, settings.fingerprint)
        self._policy = Patience()
        """While the policy is away, nothing that needs it is handed out."""
        self._end = ""

    def begin(self, search_id: int) -> None:
        """Take a number that no other run's search of this task has.

        Leases are numbered from there: what is reported of another run's branches is refused.
        """
        self._assignments.search_id = search_id
        self._leases.start_at(search_id)

    # What a desktop asks -------------------------------------------------------------------

    def next_work(self, worker: ActorName, now_ns: int) -> Assign | Idle:
        """Choose work for a free desktop. Whatever it held goes to others: it asks, so it is free.

        A request that is asked again because its answer was lost is answered anew in this way.
        """
        self.freed(worker, now_ns)
        self.lapse(now_ns)
        branch = self._choose(now_ns) if not self._end else None
        if branch is not None:
            self.tally.branches += 1
            return self._branches.lend(branch, worker, now_ns)
        if not self._end and self._branches.is_empty and not self._policy.rests(now_ns):
            self._finish()
        if self._end:
            return Idle(retry_ms=0, is_over=True)
        rest_ms = min(self._policy.left_ms(now_ns), _RETRY_MS_MAX)
        return Idle(retry_ms=max(rest_ms, RETRY_MS))

    def renew(self, branch_id: BranchId, lease: int, now_ns: int) -> Renewed | LeaseLapsed:
        """Extend a lease; one that is over holds again, as long as nobody took the branch back.

        So a head that was away finds the branches still driven that were.
        """
        if self._branches.renew(branch_id, lease, now_ns):
            return Renewed(branch_id=branch_id, lease=lease)
        return LeaseLapsed(branch_id=branch_id, lease=lease, reason=_LAPSED)

    def node_reached(self, report: NodeReached, now_ns: int) -> Renewed | LeaseLapsed:
        """Take in a node and what the policy proposed there. Told twice, it is one look."""
        answer = self.renew(report.branch_id, report.lease, now_ns)
        if isinstance(answer, LeaseLapsed):
            return answer
        branch = self._branches.get(report.branch_id)
        assert branch is not None, "what is renewed is driven"
        why = self._refusal(report, branch)
        if why:
            return self._refuse(report, f"a state that makes no sense: {why}", now_ns)
        self._policy.answered()
        self._tree.add(
            report.path,
            report.signature,
            report.buckets,
            report.followed,
            branch_id=report.branch_id,
            rank=(branch.number, origin_of(branch.assign)),
        )
        return answer

    def leaf_reached(
        self, report: LeafReached, now_ns: int, sender: ActorName | None = None
    ) -> Renewed | LeaseLapsed:
        """Take in how a branch ended; nobody but its holder can end it.

        A repeated report is answered alike and counted once.
        """
        branch = self._branches.get(report.branch_id)
        if branch is not None and sender not in (None, branch.holder):
            return self._lapsed(report)
        key = (report.branch_id, report.lease)
        if key not in self._answers:
            self._answers[key] = self._first_report(report, now_ns)
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)
        return self._answers[key]

    def freed(self, worker: ActorName, now_ns: int) -> None:
        """Send out again what a worker held that holds nothing now."""
        for branch in self._branches.freed(worker):
            self._lost(branch, "its worker started over", "desktop", now_ns, is_own=False)

    def lapse(self, now_ns: int) -> None:
        """Send out again what was lent and not renewed in time."""
        for branch in self._branches.lapsed(now_ns):
            self._lost(branch, _UNHEARD, "desktop", now_ns, is_own=False)

    def is_due(self, now_ns: int) -> bool:
        """Whether the passing of time changes anything now, or the ledger is to hear of something.

        When neither is so, `lapse` need not be called.
        """
        return self._successes.has_any or self._branches.is_due(now_ns)

    # What is told of it --------------------------------------------------------------------

    def take_admissions(self) -> tuple[Trajectory, ...]:
        """The trajectories that came about since the last call; the ledger must hear of them."""
        return self._successes.take()

    def admitted(self, trajectory: Trajectory) -> None:
        """The ledger holds it.

        What is distinct is counted here: the ledger calls a path known, too, when it kept it just
        before a crash, or when it was kept before as one that was not certified.
        """
        if trajectory.is_certified:
            self.tally.certified += 1
            self.tally.distinct = self._successes.kept(trajectory)

    def progress(self) -> TaskProgress:
        """Where this search stands."""
        state = "waiting" if not self._is_gated and self._branches.is_empty else "running"
        waits = f"waits for the policy: {self._policy.why}" if self._policy.why else ""
        return self.tally.progress(self.task, state, self._end, len(self._tree), waits_for=waits)

    def lent(self, now_ns: int) -> tuple[LeaseStatus, ...]:
        """The branches that are lent, and for how long yet."""
        return self._branches.lent(now_ns)

    @property
    def is_over(self) -> bool:
        """True when no more work will come."""
        return bool(self._end)

    @property
    def tree(self) -> Tree:
        """The states reached so far; not to be changed."""
        return self._tree

    # Choosing ------------------------------------------------------------------------------

    def _choose(self, now_ns: int) -> Branch | None:
        rests = self._policy.rests(now_ns)
        waiting = self._branches.take(
            now_ns, lambda branch: not (rests and branch.assign.kind in _ASK)
        )
        if waiting is not None:
            return waiting
        if not self._is_gated:
            return self._assignments.make("gate") if self._branches.is_empty else None
        if rests:
            return None
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
        return self._assignments.make("explore", number=self._looks, temperature=temperature)

    def _look_again(self) -> Branch | None:
        is_wanted = self.tally.verified == 0 and self._looks < self._settings.looks_max
        return self._look() if is_wanted and self._branches.is_empty else None

    def _next_rollout(self) -> Branch | None:
        if self._rollouts_sent > self._settings.rollouts:
            return None
        self._rollouts_sent += 1
        number = self._rollouts_sent
        return self._assignments.make("rollout", number=number, is_greedy=number == 1)

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
        prefix, start = self._tree.prefix(path), self._tree.start() if path else None
        return self._assignments.make("explore", prefix=prefix, strike_off=bucket, start=start)

    def _why_over(self) -> str:
        spent = Spent(
            leaves=self.tally.leaves + self._branches.exploring(),
            actions=self.tally.replayed_actions + self.tally.new_actions,
            successes=self.tally.distinct,
        )
        return why_spent(spent, self._settings)

    def _finish(self) -> None:
        self._end = self._why_over() or "nothing left to try"
        tally = self.tally
        if tally.lost:
            self._end += f"; {tally.lost} branches were given up, the last because {tally.lost_why}"
        if tally.lost and not tally.leaves:  # nothing was learned of the task: that is no end
            tally.refuse(tally.lost_cause)

    # Refusing and losing ---------------------------------------------------------------------

    def _refusal(self, report: NodeReached, branch: Branch) -> str:
        origin = origin_of(branch.assign)
        is_own = report.task_id == self.task.id and branch.assign.kind == "explore"
        if not is_own or report.path[: len(origin)] != origin:
            return f"branch {report.branch_id} does not come by there"
        return self._tree.refusal(report.path, report.buckets, report.followed)

    def _refuse(self, report: NodeReached | LeafReached, why: str, now_ns: int) -> LeaseLapsed:
        """End the lease of a branch whose driver talks nonsense, and send it out again."""
        branch = self._branches.end(report.branch_id, report.lease)
        assert branch is not None, "refused under its own lease"
        self.tally.refused += 1
        self._lost(branch, why, "desktop", now_ns, is_own=True)
        return LeaseLapsed(branch_id=report.branch_id, lease=report.lease, reason=why)

    def _lost(
        self, branch: Branch, why: str, cause: LossCause, now_ns: int, *, is_own: bool
    ) -> None:
        """A branch broke through no fault of its policy: once more, elsewhere, or give up."""
        if self._branches.send_again(branch, cause, now_ns, is_own=is_own):
            self.tally.reassigned += 1
            return
        self.tally.give_up(why, cause)
        if branch.assign.kind == "gate":
            self._end = f"{why_no_start(cause, is_own=is_own)}: {why}"
            self.tally.refuse(cause)
        elif branch.assign.kind == "certify":
            self._certify_failed(branch)

    # Learning from a leaf --------------------------------------------------------------------

    def _lapsed(self, report: LeafReached) -> LeaseLapsed:
        self.tally.refused += 1
        return LeaseLapsed(branch_id=report.branch_id, lease=report.lease, reason=_LAPSED)

    def _first_report(self, report: LeafReached, now_ns: int) -> Renewed | LeaseLapsed:
        branch = self._branches.get(report.branch_id)
        if branch is None or branch.assign.lease != report.lease:
            return self._lapsed(report)
        is_broken = report.verdict is None or report.verdict.verdict == "infra"
        if why := why_not_its_leaf(branch.assign, report, is_broken=is_broken):
            return self._refuse(report, why, now_ns)
        self._branches.end(report.branch_id, report.lease)
        self.tally.add_leaf(report, branch.number, is_broken=is_broken)
        self._price.learn(report.cost)
        if is_broken:
            self._broken(branch, report, now_ns)
        else:
            self._judged(branch, report)
        return Renewed(branch_id=report.branch_id, lease=report.lease)

    def _broken(self, branch: Branch, report: LeafReached, now_ns: int) -> None:
        cause, why = report.cause, report.detail
        if report.verdict is not None:  # what the verifier itself calls infra
            cause, why = cause or "verifier", report.verdict.reason
        if cause == "policy":
            self._policy.missed(why, now_ns)
        self._lost(branch, why, cause, now_ns, is_own=cause in OWN_CAUSES)

    def _judged(self, branch: Branch, report: LeafReached) -> None:
        verdict = report.verdict
        assert verdict is not None, "a leaf without a verdict is a lost branch"
        is_success = verdict.verdict == "success"
        if report.kind == "gate":
            self._gated(report)
        elif report.kind == "certify":
            if is_success:
                self._reproduced(report, branch)
            else:
                self._certify_failed(branch)
        else:
            self._policy.answered()
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
        prefix = self._successes.first_try(report)
        if prefix is None:
            self.tally.repeated += 1
            return
        self._branches.put(self._assignments.make("certify", prefix=prefix, source=report))

    def _reproduced(self, report: LeafReached, branch: Branch) -> None:
        count = branch.reproduced + 1
        if count == self._settings.certify_replays:
            self._admit(report, branch, is_certified=True)
            return
        again = self._assignments.make(
            "certify", prefix=branch.assign.prefix, source=branch.source, reproduced=count
        )
        self._branches.put(again)

    def _certify_failed(self, branch: Branch) -> None:
        source = branch.source
        assert source is not None, "a certification has its success"
        full = self._successes.second_try(source, branch.assign.prefix)
        if full is None:
            self.tally.uncertified += 1
            self._admit(source, branch, is_certified=False)
            return
        self._branches.put(self._assignments.make("certify", prefix=full, source=source))

    def _admit(self, leaf: LeafReached, branch: Branch, *, is_certified: bool) -> None:
        assert branch.source is not None, "a certification has its success"
        self._successes.admit(
            leaf,
            policy=branch.source.policy,
            success_rate=self.tally.success_rate(),
            is_certified=is_certified,
        )
