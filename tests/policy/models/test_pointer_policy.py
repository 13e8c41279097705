"""The pointer policy: exact probabilities, draws that repeat, clicks that hit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Finish,
    Key,
    Point,
    Scroll,
    Target,
    Type,
    Wait,
)
from envs_node.messages.desktop import Element, Observation
from envs_node.messages.propose import State
from envs_node.policy.backend import Policy
from envs_node.policy.models.load import load_policy
from envs_node.policy.models.pointer import vocabulary
from envs_node.policy.models.pointer.features import featurize
from envs_node.policy.models.pointer.lessons import play

FIRST = play(7)[0][0]


@pytest.fixture(scope="module")
def policy(tiny_policy: Path) -> Policy:
    return load_policy(tiny_policy)


def with_elements(*elements: Element, instruction: str = "Push 'Zither' now") -> State:
    seen: Observation = FIRST.observation
    return State(
        instruction=instruction,
        observation=Observation(
            width=1280,
            height=720,
            elements=elements,
            signature=seen.signature,
            time_ns=0,
        ),
    )


def every_action(state: State) -> list[Action]:
    """All that the policy can say in a state, each once."""
    features = featurize(state, 256)
    actions: list[Action] = [Finish()]
    actions += [Type(text=span.text) for span in features.spans]
    actions += [Key(keys=tuple(chord.split("+"))) for chord in vocabulary.CHORDS]
    for element in features.elements:
        if vocabulary.is_clickable(vocabulary.kind_of(element.role)):
            target = Target(role=element.role, name=element.name)
            x, y = element.x + element.width // 2, element.y + element.height // 2
            actions += [
                Click(x=x, y=y, button=button, count=count, target=target)
                for button, count in ((1, 1), (1, 2), (3, 1))
            ]
    return actions


BUTTON = Element("push button", "Zither", "", 10, 10, 80, 30)
FRAME = Element("frame", "Bugle", "", 0, 0, 600, 400)
FIELD = Element("text", "Lyre", "old words", 10, 60, 200, 30, ("editable", "focused"))


@pytest.mark.parametrize(
    "state",
    [
        with_elements(FRAME, BUTTON, FIELD),
        with_elements(),
        with_elements(FRAME),
        with_elements(BUTTON, instruction=""),
    ],
    ids=["buttons", "nothing", "no target", "no words"],
)
def test_probabilities_of_all_actions_sum_to_one(policy: Policy, state: State) -> None:
    log_probs = policy.score(state, every_action(state))

    assert sum(map(math.exp, log_probs)) == pytest.approx(1.0, abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31), lesson=st.integers(0, 40), temperature=st.sampled_from([0.3, 1, 3])
)
def test_a_proposal_is_scored_as_it_was_proposed(
    policy: Policy, seed: int, lesson: int, temperature: float
) -> None:
    for state, _ in play(lesson):
        proposals = policy.propose(state, samples=4, temperature=temperature, seed=seed)
        scores = policy.score(state, [proposal.action for proposal in proposals])

        assert scores == tuple(proposal.log_prob for proposal in proposals)
        assert all(math.isfinite(score) for score in scores)


def test_equal_seeds_propose_alike_and_others_differ(policy: Policy) -> None:
    first = policy.propose(FIRST, samples=16, temperature=1.0, seed=5)

    assert policy.propose(FIRST, samples=16, temperature=1.0, seed=5) == first
    assert policy.propose(FIRST, samples=16, temperature=1.0, seed=6) != first


def test_a_click_lands_inside_the_element_it_names(policy: Policy) -> None:
    state = with_elements(FRAME, BUTTON, FIELD)

    for proposal in policy.propose(state, samples=200, temperature=3.0, seed=0):
        match proposal.action:
            case Click(x=x, y=y, target=target):
                assert target is not None
                hit = next(e for e in (BUTTON, FIELD) if e.name == target.name)
                assert hit.x <= x < hit.x + hit.width
                assert hit.y <= y < hit.y + hit.height


def test_clicks_on_one_element_weigh_the_same_wherever_they_land(policy: Policy) -> None:
    state = with_elements(FRAME, BUTTON, FIELD)
    target = Target(role="push button", name="Zither")
    clicks = [Click(x=12, y=12, target=target), Click(x=80, y=38, target=target)]

    one, other = policy.score(state, [*clicks])

    assert one == other


def test_greedy_is_the_middle_of_the_element_and_always_the_same(policy: Policy) -> None:
    state = with_elements(BUTTON)

    proposals = policy.propose(state, samples=3, temperature=1.0, seed=0, greedy=True)
    again = policy.propose(state, samples=1, temperature=9.0, seed=9, greedy=True)

    assert set(proposals) == set(again)


@pytest.mark.parametrize(
    "action",
    [
        Wait(),
        Scroll(x=5, y=5, dy=2),
        Drag(path=(Point(1, 1), Point(9, 9))),
        Click(x=700, y=700),
        Click(x=15, y=15, button=2),
        Click(x=15, y=15, keys=("ctrl",)),
        Click(x=15, y=15, target=Target(role="push button", name="Gone")),
        Click(x=300, y=300, target=Target(role="frame", name="Bugle")),
        Type(text="words that nobody said"),
        Key(keys=("hyper", "x")),
    ],
    ids=repr,
)
def test_what_cannot_be_said_scores_minus_infinity(policy: Policy, action: Action) -> None:
    assert policy.score(with_elements(FRAME, BUTTON), [action]) == (-math.inf,)


def test_entropy_is_that_of_all_actions(policy: Policy) -> None:
    state = with_elements(FRAME, BUTTON, FIELD)

    log_probs = [one for one in policy.score(state, every_action(state)) if math.isfinite(one)]

    exact = -sum(math.exp(one) * one for one in log_probs)
    assert policy.entropy(state) == pytest.approx(exact, abs=1e-4)


def test_history_changes_the_choice(policy: Policy) -> None:
    state = with_elements(FRAME, BUTTON, FIELD)
    target = Target(role="push button", name="Zither")
    later = State(
        instruction=state.instruction,
        observation=state.observation,
        history=(Click(x=20, y=20, target=target), Wait()),
    )

    assert policy.score(state, [Finish()]) != policy.score(later, [Finish()])


def test_no_samples_and_no_heat_are_refused(policy: Policy) -> None:
    with pytest.raises(ValueError, match="0 samples"):
        policy.propose(FIRST, samples=0, temperature=1.0, seed=0)
    with pytest.raises(ValueError, match="temperature 0"):
        policy.propose(FIRST, samples=1, temperature=0.0, seed=0)


@settings(deadline=None, max_examples=40)
@given(
    instruction=st.text(max_size=200),
    names=st.lists(st.text(max_size=30), max_size=6),
    role=st.sampled_from(["push button", "text", "frame", "no such role", ""]),
)
def test_any_screen_and_any_words_can_be_weighed(
    policy: Policy, instruction: str, names: list[str], role: str
) -> None:
    elements = [Element(role, name, name, 9 * i, 9 * i, 30, 9) for i, name in enumerate(names)]
    state = with_elements(*elements, instruction=instruction)

    proposals = policy.propose(state, samples=2, temperature=1.0, seed=0)

    assert all(math.isfinite(proposal.log_prob) for proposal in proposals)
