"""Answers what a frozen policy would do in a state.

Owns      one frozen policy.
Hears     Propose, Score.
Says      Proposed, Scored, ProposeFailed.
On crash  loads the policy again; a request asked again gets the same answer, it has its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

import trio

from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking, run_in_thread
from envs_node.messages.propose import (
    Propose,
    Proposed,
    ProposeFailed,
    Score,
    Scored,
    State,
)
from envs_node.policy.backend import Policy, PolicyError


class ProposerActor(Actor[Propose | Score]):
    """Runs the policy in a worker thread, one request at a time."""

    def __init__(
        self,
        load: Callable[[], Policy],
        *,
        load_timeout_s: float = 120.0,
        propose_timeout_s: float = 60.0,
        run_blocking: RunBlocking = run_in_thread,
    ) -> None:
        self._load = load
        self._load_timeout_s = load_timeout_s
        self._propose_timeout_s = propose_timeout_s
        self._run_blocking = run_blocking
        self._policy: Policy | None = None
        self._requests = 0
        self._propose_ms = 0

    async def start(self) -> None:
        """Load the policy. Raises `PolicyError` when the folder holds none."""
        with trio.fail_after(self._load_timeout_s):
            self._policy = await self._run_blocking(self._load)

    async def hear(self, message: Propose | Score) -> Proposed | Scored | ProposeFailed:
        assert self._policy is not None, "a proposer hears only after it started"
        self._requests += 1
        reason = _refusal(self._policy, message)
        if reason:
            return ProposeFailed(reason=reason)
        try:
            with trio.fail_after(self._propose_timeout_s):
                match message:
                    case Propose():
                        return await self._propose(self._policy, message)
                    case Score():
                        return await self._score(self._policy, message)
                    case _:
                        assert_never(message)
        except PolicyError as error:
            return ProposeFailed(reason=str(error))

    async def stop(self) -> None:
        self._policy = None

    def statistics(self) -> dict[str, int | float]:
        return {"requests": self._requests, "propose_ms": self._propose_ms}

    async def _propose(self, policy: Policy, message: Propose) -> Proposed:
        began = trio.current_time()
        proposals = await self._run_blocking(
            partial(
                policy.propose,
                message.state,
                samples=message.samples,
                temperature=message.temperature,
                seed=message.seed,
                greedy=message.greedy,
            )
        )
        entropy = await self._run_blocking(partial(policy.entropy, message.state))
        propose_ms = round((trio.current_time() - began) * 1000)
        self._propose_ms += propose_ms
        return Proposed(
            proposals=proposals, policy=policy.name, entropy=entropy, propose_ms=propose_ms
        )

    async def _score(self, policy: Policy, message: Score) -> Scored:
        log_probs = await self._run_blocking(
            partial(policy.score, message.state, message.candidates)
        )
        return Scored(log_probs=log_probs, policy=policy.name)


def _refusal(policy: Policy, message: Propose | Score) -> str:
    """Why a request cannot be served; empty when it can."""
    state: State = message.state
    if policy.needs_pixels and not state.observation.frame:
        return f"{policy.name} looks at pixels, and the observation has no frame"
    if isinstance(message, Propose):
        if message.samples < 1:
            return f"samples is {message.samples}; at least 1 is needed"
        if not message.greedy and not message.temperature > 0:
            return f"temperature is {message.temperature}; it must be above 0"
    return ""
