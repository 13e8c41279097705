"""What an actor knows at one moment of its replay, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from envs_node.actors.recorded import Passed
from envs_node.messages.actions import Action
from envs_node.messages.base import Message
from envs_node.messages.desktop import Act, Acted, ActFailed, ResetDone, Signature
from envs_node.messages.propose import Proposed
from envs_node.messages.search import (
    Assign,
    Bucket,
    Drive,
    LeafReached,
    Progress,
    Renewed,
    TaskProgress,
)
from envs_node.messages.status import LeaseStatus
from envs_node.policy.fingerprint import fingerprint
from envs_node.policy.task_search import TaskSearch

Path = tuple[str, ...]
_NOT_STATE = ("task_id", "template", "split", "verdicts", "rollouts")


class Insides(Protocol):
    """Looks into an actor while it is replayed."""

    def passed(self, passed: Passed) -> None:
        """The actor has come by an entry."""

    def facts(self) -> dict[str, str]:
        """What it knows in few words; shown where it changes."""

    def lines(self) -> list[str]:
        """What it knows in full."""


class SearchInsides:
    """Of a search: how far it is, its tree, what it has lent."""

    def __init__(self) -> None:
        self._search: TaskSearch | None = None
        self._ended: TaskProgress | None = None
        self._now_ns = 0
        self._asked: Message | None = None
        self._leaves: dict[Path, list[str]] = {}

    def begin(self, search: TaskSearch) -> None:
        """A life of the actor begins with this search; one that had ended is not rebuilt."""
        if self._ended is None:
            self._search = search

    def passed(self, passed: Passed) -> None:
        """Note what the search itself does not keep: how each branch ended."""
        message = _message_of(passed)
        kind = passed.entry.kind
        if kind == "heard" and passed.entry.envelope is not None:
            self._now_ns, self._asked = passed.entry.envelope.time_ns, message
        elif kind == "answered" and isinstance(self._asked, LeafReached):
            if isinstance(message, Renewed):
                self._add(self._asked)
        elif kind == "ended" and isinstance(message, Progress):
            self._ended = message.tasks[0]

    def facts(self) -> dict[str, str]:
        """Its counters that are not 0, and who holds which branch."""
        progress = msgspec.structs.asdict(self._progress())
        facts = {
            name: str(value) for name, value in progress.items() if value and name not in _NOT_STATE
        }
        facts |= {f"lent {lease.branch_id}": lease.holder for lease in self._lent()}
        return facts

    def lines(self) -> list[str]:
        """Progress, leases and the tree."""
        progress = self._progress()
        counters = [f"{k} {v}" for k, v in self.facts().items() if not k.startswith("lent ")]
        leases = [
            f"  {lease.branch_id} by {lease.holder}, lease {lease.number}, "
            f"{lease.left_ms / 1000:.1f} s left"
            for lease in self._lent()
        ]
        return [
            f"search of {progress.task_id}: {', '.join(counters)}",
            f"lent: {len(leases) or 'nothing'}",
            *leases,
            "tree (support/samples, * = taken by a branch):",
            *self._tree(),
        ]

    def _progress(self) -> TaskProgress:
        assert self._search is not None, "a search is looked into once it is made"
        return self._ended or self._search.progress()

    def _lent(self) -> tuple[LeaseStatus, ...]:
        return () if self._search is None else self._search.lent(self._now_ns)

    def _add(self, leaf: LeafReached) -> None:
        path = tuple(step.fingerprint for step in leaf.steps)
        words = f"=> {_verdict(leaf)}  ({leaf.branch_id}, {leaf.kind})"
        self._leaves.setdefault(path, []).append(words)

    def _tree(self) -> Iterator[str]:
        assert self._search is not None, "a search is looked into once it is made"
        nodes = self._search.tree.nodes()
        shown: set[Path] = set()
        yield from self._below((), nodes, shown, 1)
        for path in sorted(set(self._leaves) - shown):
            yield f"  beside the tree: {' > '.join(path)}"
            yield from (f"    {words}" for words in self._leaves[path])

    def _below(
        self,
        path: Path,
        nodes: dict[Path, tuple[Signature, tuple[Bucket, ...], frozenset[str]]],
        shown: set[Path],
        depth: int,
    ) -> Iterator[str]:
        shown.add(path)
        indent = "  " * depth
        yield from (f"{indent}{words}" for words in self._leaves.get(path, ()))
        if path not in nodes:
            return
        signature, buckets, taken = nodes[path]
        yield f"{indent}[{signature.focus}]"
        for bucket in buckets:
            mark = "*" if bucket.fingerprint in taken else " "
            yield f"{indent}{mark}{bucket.support}/{bucket.samples} {bucket.fingerprint}"
            yield from self._below((*path, bucket.fingerprint), nodes, shown, depth + 1)


class _Hand(msgspec.Struct, kw_only=True):
    """What a branch driver has in hand; a fresh one has nothing."""

    assign: Assign | None = None
    steps: list[str] = []
    action: Action | None = None
    asks: str = ""
    proposals: int = 0
    leaf: LeafReached | None = None


class BranchInsides:
    """Of a branch driver: the branch in hand, and the steps it has done."""

    def __init__(self) -> None:
        self._hand = _Hand()

    def passed(self, passed: Passed) -> None:
        """Note what it heard, says and is answered."""
        message = _message_of(passed)
        match passed.entry.kind:
            case "started":
                self._hand = _Hand()
            case "heard" if isinstance(message, Drive):
                self._hand = _Hand(assign=message.assign)
            case "said":
                self._hand.asks = type(message).__name__
                if isinstance(message, Act):
                    self._hand.action = message.action
            case "received":
                self._hand.asks = ""
                self._received(message)
            case "answered":
                self._hand.leaf = message if isinstance(message, LeafReached) else None

    def facts(self) -> dict[str, str]:
        """Branch, steps, and who is asked."""
        hand = self._hand
        if hand.assign is None:
            return {"branch": "none in hand"}
        facts = {"branch": str(hand.assign.branch_id), "steps": str(len(hand.steps))}
        if hand.proposals:
            facts["proposals"] = str(hand.proposals)
        if hand.asks:
            facts["asks"] = hand.asks
        if hand.leaf is not None:
            facts["leaf"] = _verdict(hand.leaf)
        return facts

    def lines(self) -> list[str]:
        """The branch in hand in full."""
        hand, assign = self._hand, self._hand.assign
        if assign is None:
            return ["no branch in hand"]
        strikes = f", strikes off to {assign.strike_off.fingerprint}" if assign.strike_off else ""
        lines = [
            f"branch {assign.branch_id} ({assign.kind}), lease {assign.lease}: replays "
            f"{len(assign.prefix)} steps{strikes}",
            *(f"  {number}. {words}" for number, words in enumerate(hand.steps, 1)),
        ]
        if hand.asks:
            lines.append(f"waits for the answer to {hand.asks}")
        if hand.leaf is not None:
            lines.append(f"=> {_verdict(hand.leaf)}")
        return lines

    def _received(self, message: Message | None) -> None:
        hand = self._hand
        match message:
            case ResetDone():
                hand.steps = []
            case Acted(observation=seen) if hand.action is not None:
                hand.steps.append(f"{fingerprint(hand.action)} -> [{seen.signature.focus}]")
            case ActFailed(reason=reason) if hand.action is not None:
                hand.steps.append(f"{fingerprint(hand.action)} refused: {reason}")
            case Proposed(proposals=proposals):
                hand.proposals = len(proposals)


def _message_of(passed: Passed) -> Message | None:
    """What is said now; of what is heard and received, what the record has."""
    if passed.entry.kind in ("said", "answered"):
        return passed.said
    return None if passed.entry.envelope is None else passed.entry.envelope.message


def _verdict(leaf: LeafReached) -> str:
    if leaf.verdict is None:
        return f"{leaf.reason}: {leaf.detail}"
    score = "" if leaf.verdict.score is None else f" {leaf.verdict.score:g}"
    return f"{leaf.verdict.verdict}{score}, {leaf.reason}"
