"""The proposer: answers by its policy, refuses what makes no sense, needs no model to import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from envs_node.actors.proposer.actor import ProposerActor
from envs_node.messages.actions import Action, Finish
from envs_node.messages.propose import (
    Proposal,
    Propose,
    Proposed,
    ProposeFailed,
    Score,
    Scored,
    State,
)
from envs_node.policy.backend import PolicyError
from envs_node.policy.models.load import load_policy
from envs_node.policy.models.pointer.lessons import play

BASE = Path(__file__).parents[3] / "deploy" / "base-policy"
STATE: State = play(3)[0][0]
ASKED = Propose(state=STATE, samples=4, temperature=0.7, seed=1)


class SmallPolicy:
    """Always finishes; may look at pixels, may break."""

    name = "small@0"

    def __init__(self, *, needs_pixels: bool = False, reason: str = "") -> None:
        self.needs_pixels = needs_pixels
        self._reason = reason

    def propose(
        self, state: State, *, samples: int, temperature: float, seed: int, greedy: bool = False
    ) -> tuple[Proposal, ...]:
        if self._reason:
            raise PolicyError(self._reason)
        return (Proposal(action=Finish(), text="finish()", log_prob=0.0),) * samples

    def score(self, state: State, candidates: Sequence[Action]) -> tuple[float, ...]:
        return (0.0,) * len(candidates)

    def entropy(self, state: State) -> float:
        return 0.0


async def started(policy: SmallPolicy) -> ProposerActor:
    actor = ProposerActor(lambda: policy)
    await actor.start()
    return actor


async def test_the_built_in_policy_answers_the_same_when_asked_again() -> None:
    actor = ProposerActor(lambda: load_policy(BASE))
    await actor.start()

    first, again = await actor.hear(ASKED), await actor.hear(ASKED)

    assert isinstance(first, Proposed)
    assert isinstance(again, Proposed)
    assert len(first.proposals) == 4
    assert again.proposals == first.proposals
    assert first.policy.startswith("base-policy@")
    assert first.entropy > 0


async def test_scores_are_those_of_the_proposals() -> None:
    actor = ProposerActor(lambda: load_policy(BASE))
    await actor.start()
    proposed = await actor.hear(ASKED)
    assert isinstance(proposed, Proposed)

    candidates = tuple(proposal.action for proposal in proposed.proposals)
    scored = await actor.hear(Score(state=STATE, candidates=candidates))

    assert isinstance(scored, Scored)
    assert scored.log_probs == tuple(proposal.log_prob for proposal in proposed.proposals)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Propose(state=STATE, samples=0, temperature=1.0, seed=0), "samples is 0"),
        (Propose(state=STATE, samples=1, temperature=0.0, seed=0), "temperature is 0.0"),
        (Propose(state=STATE, samples=1, temperature=float("nan"), seed=0), "temperature is nan"),
    ],
)
async def test_nonsense_is_refused(message: Propose, reason: str) -> None:
    answer = await (await started(SmallPolicy())).hear(message)

    assert isinstance(answer, ProposeFailed)
    assert reason in answer.reason


async def test_a_policy_that_looks_at_pixels_wants_a_frame() -> None:
    answer = await (await started(SmallPolicy(needs_pixels=True))).hear(ASKED)

    assert answer == ProposeFailed(
        reason="small@0 looks at pixels, and the observation has no frame"
    )


async def test_a_policy_that_cannot_answer_is_a_refusal_and_not_a_crash() -> None:
    answer = await (await started(SmallPolicy(reason="the server is gone"))).hear(ASKED)

    assert answer == ProposeFailed(reason="the server is gone")


async def test_a_folder_that_holds_no_policy_is_a_crash_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="holds no config"):
        await ProposerActor(lambda: load_policy(tmp_path)).start()


async def test_statistics_count_requests() -> None:
    actor = await started(SmallPolicy())

    await actor.hear(ASKED)
    await actor.stop()

    assert actor.statistics()["requests"] == 1


def test_importing_the_actor_loads_no_model() -> None:
    code = (
        "import sys, envs_node.actors.proposer.actor, envs_node.actors.trainer.actor;"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
