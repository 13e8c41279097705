"""Makes the branches of a task. What one is asked to do follows from what it is, not from when."""

from __future__ import annotations

import hashlib

import msgspec

from envs_node.messages.base import ActorName, BranchId
from envs_node.messages.desktop import Signature
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Assign, BranchKind, Bucket, LeafReached, PrefixStep
from envs_node.messages.tasks import Task
from envs_node.policy.branches import Branch


class Assignments:
    """Makes the branches of one task, each under the next name."""

    def __init__(self, task: Task, settings: SearchSettings, proposer: ActorName) -> None:
        self._task = task
        self._settings = settings
        self._proposer = proposer
        self._count = 0
        self.search_id = 0
        """Of `Assign`; given once the search has begun."""

    def make(
        self,
        kind: BranchKind,
        *,
        number: int = 0,
        prefix: tuple[PrefixStep, ...] = (),
        strike_off: Bucket | None = None,
        is_greedy: bool = False,
        temperature: float = 0.0,
        source: LeafReached | None = None,
        reproduced: int = 0,
        start: Signature | None = None,
    ) -> Branch:
        """Make a branch.

        Args:
            number: the look or the rollout that it is.
            reproduced: how often its source was before.
            start: what was seen before the prefix, unless its source says so.
        """
        self._count += 1
        if source is not None and source.steps:
            start = source.steps[0].observation.signature
        settings = self._settings
        assign = Assign(
            branch_id=BranchId(f"{self._task.id}#{self._count}"),
            task_id=self._task.id,
            task_sha256=self._task.sha256,
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
            support_min=settings.support_min,
            keep_frames=settings.keep_frames,
            start=start,
            search_id=self.search_id,
        )
        seed = _seed_of(settings.seed, self._task.id, kind, origin_of(assign), number)
        assign = msgspec.structs.replace(assign, seed=seed)
        return Branch(assign=assign, number=number, source=source, reproduced=reproduced)


def origin_of(assign: Assign) -> tuple[str, ...]:
    """The path that a branch is sent along; with its kind and number, that is what it is."""
    path = tuple(step.fingerprint for step in assign.prefix)
    return (*path, assign.strike_off.fingerprint) if assign.strike_off else path


def why_not_its_leaf(assign: Assign, leaf: LeafReached, *, is_broken: bool) -> str:
    """Why a leaf cannot be the end of this branch; empty when it can.

    Otherwise a driver that skips a step would have the ledger keep, as certified, what nobody did.
    """
    if leaf.task_id != assign.task_id or leaf.kind != assign.kind:
        return f"a {leaf.kind} of {leaf.task_id} is not what it was sent out for"
    if is_broken:  # it may have broken anywhere
        return ""
    sent = tuple(step.action for step in assign.prefix)
    done = tuple(step.action for step in leaf.steps)
    if done[: len(sent)] != sent:
        return f"it did not take the {len(sent)} steps that it was sent out to repeat"
    is_replay = assign.kind in ("gate", "certify")
    if is_replay and len(done) > len(sent):
        return f"it took {len(done)} steps, and was sent out for {len(sent)}"
    return ""


def _seed_of(seed: int, *meaning: object) -> int:
    digest = hashlib.sha256(repr((seed, *meaning)).encode()).digest()
    return int.from_bytes(digest[:6], "big")
