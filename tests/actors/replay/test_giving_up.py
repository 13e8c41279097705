"""Only a policy that says itself that a task cannot be done has said so."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from envs_node.actors.base import Actor
from envs_node.messages.actions import Action, Fail, Finish, Type, Wait
from envs_node.messages.base import Message
from envs_node.messages.verify import Verdict, Verified, Verify
from envs_node.policy.coordinates import Point
from envs_node.policy.dialects.computer_13 import parse_computer_13
from tests.actors.replay.driving import World, assign
from tests.fakes import FakeDesktop, FakeScreen, click, note_screen


class InfeasibleTask(Actor[Verify]):
    """Judges a task that cannot be done, as the checker does."""

    async def hear(self, message: Verify) -> Verified:
        score = float(message.last_action == "FAIL")
        return Verified(
            verify_id=message.verify_id, verdict=Verdict(verdict="infeasible", score=score)
        )


def _screen(*actions: Action) -> FakeScreen:
    """On which a policy takes these, and then has nothing more to propose."""
    proposals = {"empty": tuple((action, 8) for action in actions)}
    return msgspec.structs.replace(note_screen(), proposals=proposals)


async def _drive(world: World, **settings: int) -> tuple[str, Verdict | None]:
    leaf = await world.drive(assign(**settings))
    return leaf.reason, leaf.verdict


def _world(screen: FakeScreen, desktop: FakeDesktop | None = None) -> World:
    return World(desktop, screen=screen, verifier=cast(Actor[Message], InfeasibleTask()))


@pytest.mark.parametrize(
    ("screen", "steps_max", "reason", "score"),
    [
        (_screen(Fail()), 5, "fail", 1.0),
        (_screen(Finish()), 5, "finish", 0.0),
        (_screen(Type(text="hi")), 1, "step_limit", 0.0),
        (_screen(Type(text="FAIL")), 1, "step_limit", 0.0),
        (_screen(click("Nothing")), 5, "stuck", 0.0),
        (_screen(), 5, "no_proposal", 0.0),
    ],
)
async def test_no_ending_but_giving_up_solves_an_infeasible_task(
    screen: FakeScreen, steps_max: int, reason: str, score: float
):
    ended, verdict = await _drive(_world(screen), steps_max=steps_max)

    assert verdict is not None
    assert (ended, verdict.verdict, verdict.score) == (reason, "infeasible", score)


async def test_a_desktop_that_is_lost_solves_no_infeasible_task():
    screen = _screen(Wait())

    ended, verdict = await _drive(_world(screen, FakeDesktop(screen, resets=False)))

    assert (ended, verdict) == ("infra", None)


@pytest.mark.parametrize(
    "said",
    [{"action_type": "FAIL"}, {"action_type": "FAIL", "parameters": {}}],
)
async def test_giving_up_is_the_same_however_it_is_written(said: dict[str, object]):
    action = parse_computer_13(said, Point(0, 0))

    ended, verdict = await _drive(_world(_screen(action)))

    assert verdict is not None
    assert (ended, verdict.score) == ("fail", 1.0)
