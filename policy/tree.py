"""One task's search tree: the states reached, and what was proposed in each."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envs_node.messages.desktop import Signature
from envs_node.messages.search import Bucket, PrefixStep
from envs_node.policy.agreement import agreed

Path = tuple[str, ...]


class Node(msgspec.Struct, kw_only=True):
    """A state, the buckets proposed there, and the fingerprints that were already followed."""

    path: Path
    signature: Signature
    buckets: tuple[Bucket, ...]
    taken: set[str]
    """Fingerprints a branch has followed from here or was sent out to follow."""
    looks: int = 1
    """How often the policy was asked here."""


class Price(msgspec.Struct, kw_only=True):
    """Running means of what a desktop costs, in ms; the defaults only order the first choices."""

    reset_ms: float = 2000.0
    step_ms: float = 500.0
    remainder_steps: float = 4.0

    def of(self, depth: int) -> float:
        """Expected cost of a branch that strikes off at this depth."""
        return self.reset_ms + self.step_ms * (depth + self.remainder_steps)

    def learn(self, *, reset_ms: int, steps: int, steps_ms: int) -> None:
        """Take in the measured cost of a branch."""
        self.reset_ms += 0.2 * (reset_ms - self.reset_ms)
        if steps:
            self.step_ms += 0.2 * (steps_ms / steps - self.step_ms)
            self.remainder_steps += 0.2 * (steps - self.remainder_steps)


class Tree:
    """The nodes of one task by path. Pure bookkeeping: it decides nothing about money."""

    def __init__(self, support_min: int, branches_node_max: int) -> None:
        self._support_min = support_min
        self._branches_node_max = branches_node_max
        self._nodes: dict[Path, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(
        self, path: Path, signature: Signature, buckets: tuple[Bucket, ...], followed: str
    ) -> None:
        """Record a node. One reached again keeps its buckets and takes in those it did not have."""
        node = self._nodes.setdefault(
            path, Node(path=path, signature=signature, buckets=buckets, taken=set())
        )
        node.looks += bool(node.taken)
        known = {bucket.fingerprint for bucket in node.buckets}
        node.buckets += tuple(bucket for bucket in buckets if bucket.fingerprint not in known)
        node.taken.add(followed)

    def take(self, path: Path, fingerprint: str) -> None:
        """Mark a bucket as being followed by a branch."""
        self._nodes[path].taken.add(fingerprint)

    def open_buckets(self) -> Iterator[tuple[Node, Bucket]]:
        """Every agreed bucket that no branch has followed, in the order its node was reached."""
        for node in self._nodes.values():
            open_here = [b for b in node.buckets if b.fingerprint not in node.taken]
            free = self._branches_node_max * node.looks - len(node.taken)
            for bucket in agreed(open_here, self._support_min, max(0, free)):
                yield node, bucket

    def share(self, path: Path) -> float:
        """How likely the policy walks this path: the product of its buckets' shares, 0 to 1."""
        product = 1.0
        for depth, name in enumerate(path):
            node = self._nodes.get(path[:depth])
            bucket = _find(node.buckets, name) if node else None
            product *= bucket.support / bucket.samples if bucket else 1.0
        return product

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
