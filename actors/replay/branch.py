"""What a branch has seen and done so far, and the report it makes of it."""

from __future__ import annotations

import hashlib

import msgspec

from envs_node.messages.actions import Action, Fail
from envs_node.messages.desktop import Acted, Observation, ResetDone
from envs_node.messages.propose import Proposal, Propose, Proposed, State
from envs_node.messages.search import (
    Assign,
    BranchCost,
    Bucket,
    LeafReached,
    LeafReason,
    LossCause,
    NodeReached,
    PrefixStep,
    Renew,
    ReplayCheck,
    Step,
)
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict, Verify
from envs_node.policy.compare import compare


class BranchRecord:
    """Grows with every answer; holds nothing that did not come in a message."""

    def __init__(self, assign: Assign) -> None:
        self._assign = assign
        self._steps: list[Step] = []
        self._history: list[Action] = []
        self._cost = BranchCost()
        self._replay = ReplayCheck()
        self._policy = ""
        self._observation: Observation | None = None
        self._spared_ms = 0
        self.branch_id = assign.branch_id
        self.task_id = assign.task_id
        self.lease = assign.lease
        self.guest_pid = 0
        self.can_fork = False
        """Whether its desktop can be kept as it is."""
        self.is_ended = False
        self.has_failed = False
        self.is_refused = False
        """A replayed action made no sense on this screen."""
        self.is_unheard = False
        """The head did not answer when it was told that this branch goes on."""

    @property
    def episode(self) -> int:
        """The number of its reset: no other branch or lease has it, and this one always has.

        So a desktop that is asked twice resets once, and one that outlived the actor that drove it
        does not take the next branch for the last.
        """
        return _number_of(f"{self.branch_id}/{self.lease}")

    @property
    def observation(self) -> Observation:
        """What the screen shows now."""
        assert self._observation is not None, "a branch looks only after its reset"
        return self._observation

    @property
    def depth(self) -> int:
        """Actions since the start."""
        return len(self._steps)

    @property
    def path(self) -> tuple[str, ...]:
        """Fingerprints since the start."""
        return tuple(step.fingerprint for step in self._steps)

    def state(self, instruction: str) -> State:
        """What the policy sees now."""
        return State(
            instruction=instruction,
            observation=self.observation,
            history=tuple(self._history),
        )

    def question(self, instruction: str) -> Propose:
        """What to ask the policy now."""
        assign = self._assign
        return Propose(
            state=self.state(instruction),
            samples=assign.samples,
            temperature=assign.temperature,
            seed=_seed_at(assign.seed, self.depth),
            greedy=assign.is_greedy,
        )

    def renewal(self) -> Renew:
        """The word that this branch goes on."""
        return Renew(branch_id=self.branch_id, lease=self.lease)

    def verification(self, task: Task) -> Verify:
        """What to ask the verifier in the end."""
        return Verify(
            verify_id=f"{self.branch_id}/{self.lease}",
            task=task,
            guest_pid=self.guest_pid,
            last_action="FAIL" if self.has_failed else "DONE",
        )

    def bucket_of(self, step: PrefixStep) -> Bucket:
        """A prefix step as a bucket: it was proposed and followed before."""
        proposal = Proposal(action=step.action, text=step.text, log_prob=step.log_prob)
        return Bucket(fingerprint=step.fingerprint, proposal=proposal, support=1, samples=1)

    @property
    def spent_ms(self) -> int:
        """What it took a desktop to come here: the price of coming here again."""
        cost = self._cost
        return cost.reset_ms + cost.replay_ms + cost.act_ms + self._spared_ms

    def begin(self, done: ResetDone) -> None:
        """The desktop stands at the task's start, or is a copy of one that has left it."""
        self._observation = (*done.seen, done.observation)[0]
        self.guest_pid = done.guest_pid
        self.can_fork = done.can_fork
        self._add_cost(reset_ms=done.reset_ms, fork_ms=done.fork_ms)

    def forked(self, bucket: Bucket, after: Observation, before_ms: int) -> None:
        """A copy stands behind this action, which is not performed again.

        Args:
            before_ms: what such a step takes where it is performed.
        """
        outcome, _ = compare(self.observation.signature, after.signature)
        self._add_step(bucket, after, changed=outcome != "equal", is_replayed=True)
        self._observation = after
        self._history.append(bucket.proposal.action)
        self._spared_ms += before_ms
        self._add_cost(forked_actions=1)
        self._replay = msgspec.structs.replace(self._replay, forked=self._replay.forked + 1)

    def kept(self, fork_ms: int) -> None:
        """The desktop was kept where it stands, for others to begin there."""
        self._add_cost(fork_ms=fork_ms)

    def proposed(self, answer: Proposed) -> None:
        """The policy has answered."""
        self._policy = answer.policy
        self._add_cost(propose_ms=answer.propose_ms)

    def acted(self, bucket: Bucket, answer: Acted, *, is_replayed: bool) -> None:
        """An action was performed."""
        before, after = self.observation, answer.observation
        outcome, _ = compare(before.signature, after.signature)
        self._add_step(bucket, after, changed=outcome != "equal", is_replayed=is_replayed)
        self._observation = after
        self._history.append(bucket.proposal.action)
        if is_replayed:
            self._add_cost(replayed_actions=1, replay_ms=answer.act_ms)
        else:
            self._add_cost(new_actions=1, act_ms=answer.act_ms)

    def end(self, bucket: Bucket, *, is_replayed: bool) -> None:
        """The policy ended the branch: nothing is performed, the screen stays as it is."""
        self.is_ended = True
        self.has_failed = isinstance(bucket.proposal.action, Fail)
        self._add_step(bucket, self.observation, changed=False, is_replayed=is_replayed)

    def node(self, buckets: tuple[Bucket, ...], entropy: float) -> NodeReached:
        """The report of where the branch stands and what the policy proposed there."""
        return NodeReached(
            branch_id=self._assign.branch_id,
            task_id=self._assign.task_id,
            lease=self._assign.lease,
            depth=self.depth,
            path=self.path,
            signature=self.observation.signature,
            buckets=buckets,
            followed=buckets[0].fingerprint,
            entropy=entropy,
        )

    def compared(self, outcome: str) -> None:
        """A replayed state was held against the record."""
        replay = self._replay
        self._replay = msgspec.structs.replace(
            replay,
            steps=replay.steps + 1,
            equal=replay.equal + int(outcome == "equal"),
            masked=replay.masked + int(outcome == "masked"),
        )

    def repeats(self) -> int:
        """How many of the last steps did one and the same thing and changed nothing."""
        count = 0
        for step in reversed(self._steps):
            if step.changed or step.fingerprint != self._steps[-1].fingerprint:
                break
            count += 1
        return count

    def leaf(self, reason: LeafReason, verdict: Verdict | None) -> LeafReached:
        """The report of a branch that was judged, or could not be."""
        if verdict is not None:
            self._add_cost(verify_ms=verdict.wall_ms)
        keeps = verdict is not None and verdict.verdict == "success"
        is_infra = verdict is not None and verdict.verdict == "infra"
        cause: LossCause = "verifier" if is_infra else ""
        return self._report(reason, verdict, keeps_elements=keeps, cause=cause)

    def strayed(self, difference: str) -> None:
        """A replay came to stand in another state; the first time is told."""
        if not self._replay.has_diverged:
            self._replay = msgspec.structs.replace(
                self._replay, diverged_at=self.depth - 1, difference=difference
            )

    def started_apart(self, difference: str) -> None:
        """A replay began in another state than the one that was recorded."""
        self._replay = msgspec.structs.replace(
            self._replay, is_start_off=True, difference=difference
        )

    def diverged(self, difference: str) -> LeafReached:
        """The report of a replay that came to stand in another state, and ended there."""
        self.strayed(difference)
        return self._report("diverged", None, detail=difference)

    def lost(self, detail: str, cause: LossCause) -> LeafReached:
        """The report of a branch that broke, and whose fault that was."""
        return self._report("infra", None, detail=detail, cause=cause)

    def _report(
        self,
        reason: LeafReason,
        verdict: Verdict | None,
        *,
        keeps_elements: bool = False,
        detail: str = "",
        cause: LossCause = "",
    ) -> LeafReached:
        cost = self._cost
        on_desktop_ms = cost.reset_ms + cost.fork_ms + cost.replay_ms + cost.act_ms
        wall_ms = on_desktop_ms + cost.propose_ms + cost.verify_ms
        steps = self._steps if keeps_elements else [_without_elements(s) for s in self._steps]
        return LeafReached(
            branch_id=self._assign.branch_id,
            task_id=self._assign.task_id,
            lease=self._assign.lease,
            kind=self._assign.kind,
            is_greedy=self._assign.is_greedy,
            reason=reason,
            verdict=verdict,
            steps=tuple(steps),
            cost=msgspec.structs.replace(cost, wall_ms=wall_ms),
            replay=self._replay,
            policy=self._policy,
            detail=detail,
            cause=cause,
        )

    def _add_step(
        self, bucket: Bucket, after: Observation, *, changed: bool, is_replayed: bool
    ) -> None:
        step = Step(
            observation=msgspec.structs.replace(self.observation, frame=b""),
            action=bucket.proposal.action,
            fingerprint=bucket.fingerprint,
            text=bucket.proposal.text,
            log_prob=bucket.proposal.log_prob,
            reached=after.signature,
            changed=changed,
            is_replayed=is_replayed,
        )
        self._steps.append(step)

    def _add_cost(self, **more: int) -> None:
        sums = {name: getattr(self._cost, name) + value for name, value in more.items()}
        self._cost = msgspec.structs.replace(self._cost, **sums)


def _without_elements(step: Step) -> Step:
    observation = msgspec.structs.replace(step.observation, elements=())
    return msgspec.structs.replace(step, observation=observation)


def _seed_at(seed: int, depth: int) -> int:
    """The seed of the draws at one depth of a branch: the same on every machine."""
    return _number_of(f"{seed}/{depth}")


def _number_of(words: str) -> int:
    digest = hashlib.sha256(words.encode()).digest()
    return int.from_bytes(digest[:6], "big")
