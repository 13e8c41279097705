"""One task's search tree: the states reached, and what was proposed in each."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envs_node.messages.base import BranchId
from envs_node.messages.desktop import Signature
from envs_node.messages.search import BranchCost, Bucket, PrefixStep
from envs_node.policy.agreement import agreed

Path = tuple[str, ...]
Rank = tuple[int, Path]
"""Orders the branches that ask in one state, by what they are: look, then where they struck off."""


class Report(msgspec.Struct, frozen=True):
    """What one branch found in a state."""

    rank: Rank
    signature: Signature
    buckets: tuple[Bucket, ...]


class Node(msgspec.Struct, kw_only=True):
    """A state, the buckets proposed there, and the fingerprints that were already followed."""

    path: Path
    signature: Signature
    """What the state looks like, by the first of its reports in rank, not in time."""
    buckets: tuple[Bucket, ...] = ()
    """Every bucket once: those of the first report in rank, then what later ones add."""
    reports: dict[BranchId, Report]
    """By branch: one that comes here again, driven anew, has not asked anew."""
    taken: set[str]
    """Fingerprints a branch has followed from here or was sent out to follow."""

    def take_in(self, branch_id: BranchId, report: Report) -> None:
        """Add a report; what a branch tells the second time only adds to the first."""
        known = self.reports.get(branch_id)
        if known is not None:
            report = Report(known.rank, known.signature, _united((*known.buckets, *report.buckets)))
        self.reports[branch_id] = report
        ordered = sorted(self.reports.values(), key=lambda report: report.rank)
        self.signature = ordered[0].signature
        self.buckets = _united(tuple(b for report in ordered for b in report.buckets))


class Price(msgspec.Struct, kw_only=True):
    """Running means of what a desktop costs, in ms; the defaults only order the first choices."""

    reset_ms: float = 2000.0
    step_ms: float = 500.0
    remainder_steps: float = 4.0

    def of(self, depth: int) -> float:
        """Expected cost of a branch that strikes off at this depth."""
        return self.reset_ms + self.step_ms * (depth + self.remainder_steps)

    def learn(self, cost: BranchCost) -> None:
        """Take in the measured cost of a branch that had a fresh desktop."""
        if not cost.reset_ms:
            return
        self.reset_ms += 0.2 * (cost.reset_ms - self.reset_ms)
        steps = cost.new_actions + cost.replayed_actions
        if steps:
            steps_ms = cost.act_ms + cost.replay_ms + cost.propose_ms
            self.step_ms += 0.2 * (steps_ms / steps - self.step_ms)
            self.remainder_steps += 0.2 * (steps - self.remainder_steps)


class Tree:
    """The nodes of one task by path. Pure bookkeeping: it decides nothing about money.

    What it holds in the end does not depend on the order in which it was told.
    """

    def __init__(self, support_min: int, branches_node_max: int) -> None:
        self._support_min = support_min
        self._branches_node_max = branches_node_max
        self._nodes: dict[Path, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def nodes(self) -> dict[Path, tuple[Signature, tuple[Bucket, ...], frozenset[str]]]:
        """The whole tree by path: each state, its buckets and what was followed."""
        return {
            path: (node.signature, node.buckets, frozenset(node.taken))
            for path, node in sorted(self._nodes.items())
        }

    def refusal(self, path: Path, buckets: tuple[Bucket, ...], followed: str) -> str:
        """Why such a report makes no sense; empty when it does."""
        if not any(bucket.fingerprint == followed for bucket in buckets):
            return f"it follows {followed!r}, which nobody proposed there"
        if any(not 1 <= bucket.support <= bucket.samples for bucket in buckets):
            return "a bucket has more proposals than were sampled, or none"
        for depth, name in enumerate(path):
            node = self._nodes.get(path[:depth])
            if node is None or _find(node.buckets, name) is None:
                return f"no known way leads there: {name!r} at depth {depth} is unknown"
        return ""

    def add(
        self,
        path: Path,
        signature: Signature,
        buckets: tuple[Bucket, ...],
        followed: str,
        *,
        branch_id: BranchId,
        rank: Rank,
    ) -> None:
        """Record what a branch found in a state.

        Told twice by one branch it is one look; what differs the second time is taken in, too: a
        policy that draws otherwise when it is asked again has gone on along what it drew.
        """
        node = self._nodes.setdefault(
            path, Node(path=path, signature=signature, reports={}, taken=set())
        )
        node.take_in(branch_id, Report(rank, signature, buckets))
        node.taken.add(followed)

    def take(self, path: Path, fingerprint: str) -> None:
        """Mark a bucket as being followed by a branch."""
        self._nodes[path].taken.add(fingerprint)

    def open_buckets(self) -> Iterator[tuple[Node, Bucket]]:
        """Every agreed bucket that no branch has followed, in the order its node was reached."""
        for node in self._nodes.values():
            free = self._branches_node_max * len(node.reports) - len(node.taken)
            if free <= 0:
                continue
            open_here = [b for b in node.buckets if b.fingerprint not in node.taken]
            for bucket in agreed(open_here, self._support_min, free):
                yield node, bucket

    def share(self, path: Path) -> float:
        """How likely the policy walks this path: the product of its buckets' shares, 0 to 1."""
        product = 1.0
        for depth, name in enumerate(path):
            node = self._nodes.get(path[:depth])
            bucket = _find(node.buckets, name) if node else None
            product *= bucket.support / bucket.samples if bucket else 1.0
        return product

    def start(self) -> Signature | None:
        """What the start looks like; None before anybody has asked the policy there."""
        root = self._nodes.get(())
        return root.signature if root else None

    def prefix(self, path: Path) -> tuple[PrefixStep, ...]:
        """The actions that lead to a node, each with the state it must reach.

        Raises:
            KeyError: the path was never walked from the root.
        """
        steps = []
        for depth, name in enumerate(path):
            bucket = _find(self._nodes[path[:depth]].buckets, name)
            if bucket is None:
                raise KeyError(f"nobody proposed {name!r} at depth {depth}")
            child = self._nodes.get(path[: depth + 1])
            steps.append(
                PrefixStep(
                    action=bucket.proposal.action,
                    fingerprint=name,
                    reached=child.signature if child else None,
                    text=bucket.proposal.text,
                    log_prob=bucket.proposal.log_prob,
                )
            )
        return tuple(steps)


def _find(buckets: tuple[Bucket, ...], fingerprint: str) -> Bucket | None:
    return next((bucket for bucket in buckets if bucket.fingerprint == fingerprint), None)


def _united(buckets: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
    """Each fingerprint once, as it came first."""
    found: dict[str, Bucket] = {}
    for bucket in buckets:
        found.setdefault(bucket.fingerprint, bucket)
    return tuple(found.values())
