"""A branch is replayed, compared, struck off, driven to its leaf and judged, whatever breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import pytest
from trio.testing import MockClock

from envs_node.actors.base import Actor
from envs_node.messages.actions import Click, Fail, Finish, Key, Type, Wait
from envs_node.messages.base import BranchId, Message
from envs_node.messages.desktop import Act, ActFailed
from envs_node.messages.propose import Proposal
from envs_node.messages.search import Bucket, Drive, Renew
from envs_node.messages.verify import Verdict
from tests.actors.replay.driving import FakeSearch, World, assign, prefix
from tests.fakes import (
    START,
    FakeDesktop,
    FakeLostError,
    FakeScreen,
    FakeVerifier,
    click,
    note_screen,
    refuse,
    signature_of,
)

HI, SAVE = Type(text="hi"), Key(keys=("ctrl", "s"))


def _bucket(action: Type | Key | Click | Finish | Wait, name: str) -> Bucket:
    proposal = Proposal(action=action, text="", log_prob=-1.0)
    return Bucket(fingerprint=name, proposal=proposal, support=3, samples=8)


def _screen(**proposals: tuple[tuple[object, int], ...]) -> FakeScreen:
    return msgspec.structs.replace(note_screen(), proposals=proposals)


async def test_a_gate_judges_the_untouched_start() -> None:
    world = World()

    leaf = await world.drive(assign("gate"))

    assert (leaf.reason, leaf.steps) == ("replayed", ())
    assert leaf.verdict is not None
    assert leaf.verdict.verdict == "failure"
    assert world.desktop.performed == []
    assert world.search.heard == []


async def test_exploring_follows_the_largest_bucket_and_reports_every_node() -> None:
    world = World()

    leaf = await world.drive(assign())

    assert leaf.reason == "finish"
    assert [step.fingerprint for step in leaf.steps] == ["type hi", "key ctrl+s", "finish"]
    assert [step.changed for step in leaf.steps] == [True, True, False]
    assert leaf.verdict == Verdict(verdict="success", score=1.0, wall_ms=20)
    assert leaf.policy == "fake table"
    nodes = world.search.nodes()
    assert [node.path for node in nodes] == [(), ("type hi",), ("type hi", "key ctrl+s")]
    assert [bucket.support for bucket in nodes[0].buckets] == [4, 3, 1]
    assert (leaf.cost.new_actions, leaf.cost.replayed_actions, leaf.cost.act_ms) == (2, 0, 20)


async def test_a_branch_strikes_off_after_its_prefix_stands_where_it_should() -> None:
    world = World()
    way = prefix(world.screen, click("Menu"))

    leaf = await world.drive(assign(prefix=way, strike_off=_bucket(HI, "type hi")))

    assert [step.is_replayed for step in leaf.steps] == [True, False, False, False]
    assert (leaf.replay.steps, leaf.replay.equal, leaf.replay.diverged_at) == (1, 1, -1)
    assert (leaf.cost.replayed_actions, leaf.cost.new_actions) == (1, 2)
    assert world.search.nodes()[0].depth == 2
    assert leaf.steps[0].text == "as recorded"


async def test_a_replay_that_comes_to_stand_elsewhere_is_reported_and_not_judged() -> None:
    world = World()
    way = prefix(world.screen, click("Menu"), HI)
    wrong = msgspec.structs.replace(way[0], reached=signature_of("another"))

    leaf = await world.drive(assign(prefix=(wrong, way[1])))

    assert (leaf.reason, leaf.verdict) == ("diverged", None)
    assert leaf.replay.diverged_at == 0
    assert "windows are 'menu' instead of 'another'" in leaf.replay.difference
    assert len(world.desktop.performed) == 1


async def test_a_tile_of_the_picture_that_differs_makes_a_replay_diverge() -> None:
    world = World()
    (step,) = prefix(world.screen, HI)
    assert step.reached is not None
    seen = msgspec.structs.replace(step.reached, tiles=b"\1" + step.reached.tiles[1:], frame="ab")

    leaf = await world.drive(assign(prefix=(msgspec.structs.replace(step, reached=seen),)))

    assert (leaf.reason, leaf.replay.diverged_at) == ("diverged", 0)
    assert leaf.detail == "1 of 8 tiles of the picture differ"


async def test_the_start_is_compared_like_a_step() -> None:
    start = signature_of(START)

    leaf = await World().drive(assign(prefix=prefix(note_screen(), HI), start=start))

    assert (leaf.replay.steps, leaf.replay.equal, leaf.replay.has_diverged) == (2, 2, False)


async def test_a_replay_that_starts_elsewhere_ends_before_its_first_action() -> None:
    world = World()

    leaf = await world.drive(assign(prefix=prefix(world.screen, HI), start=signature_of("menu")))

    assert (leaf.reason, leaf.replay.is_start_off, leaf.steps) == ("diverged", True, ())
    assert leaf.detail == leaf.replay.difference == "windows are 'empty' instead of 'menu'"
    assert (leaf.replay.steps, leaf.replay.has_diverged) == (1, True)
    assert world.desktop.performed == []


async def test_a_certification_that_starts_elsewhere_goes_on_and_tells() -> None:
    world = World()
    steps = prefix(world.screen, HI, SAVE)

    leaf = await world.drive(assign("certify", prefix=steps, start=signature_of("menu")))

    assert leaf.verdict is not None
    assert (leaf.verdict.verdict, leaf.replay.is_start_off) == ("success", True)
    assert (leaf.replay.steps, leaf.replay.equal, leaf.replay.diverged_at) == (3, 2, -1)


async def test_giving_up_is_told_to_the_checker() -> None:
    screen = _screen(empty=((Fail(), 8),))

    leaf = await World(screen=screen).drive(assign())

    assert leaf.reason == "fail"


async def test_the_same_action_on_an_unmoved_screen_is_stuck() -> None:
    screen = _screen(empty=((click("Nothing"), 8),))
    world = World(screen=screen)

    leaf = await world.drive(assign())

    assert (leaf.reason, len(leaf.steps)) == ("stuck", 2)
    assert leaf.verdict is not None


async def test_a_branch_ends_at_its_last_allowed_step_prefix_included() -> None:
    screen = _screen(
        empty=((click("Menu"), 8),), menu=((HI, 8),), typed=((Wait(), 4), (HI, 4)), saved=()
    )
    world = World(screen=screen)
    way = prefix(screen, click("Menu"))

    leaf = await world.drive(assign(prefix=way, steps_max=2))

    assert (leaf.reason, len(leaf.steps)) == ("step_limit", 2)


async def test_a_policy_without_a_proposal_ends_the_branch() -> None:
    leaf = await World(screen=_screen(empty=())).drive(assign())

    assert (leaf.reason, leaf.steps) == ("no_proposal", ())
    assert leaf.verdict is not None


async def test_a_lapsed_lease_stops_the_branch_before_its_next_action() -> None:
    world = World(search=FakeSearch(lapses_at=1))

    leaf = await world.drive(assign())

    assert (leaf.reason, leaf.verdict, leaf.detail) == ("infra", None, "the lease is over")
    assert world.desktop.performed == [HI]


async def test_a_certification_replays_the_finish_and_asks_no_policy() -> None:
    world = World()
    way = prefix(world.screen, HI, SAVE, Finish())

    leaf = await world.drive(assign("certify", prefix=way))

    assert leaf.reason == "replayed"
    assert leaf.verdict is not None
    assert leaf.verdict.verdict == "success"
    assert world.desktop.performed == [HI, SAVE]
    assert [step.fingerprint for step in leaf.steps][-1] == "finish"
    assert world.search.heard == [Renew(branch_id=BranchId("b"), lease=7)] * 3


async def test_a_certification_that_strays_goes_on_and_is_judged_by_its_end() -> None:
    world = World()
    way = prefix(world.screen, HI, SAVE, Finish())
    wrong = msgspec.structs.replace(way[0], reached=signature_of("another"))

    leaf = await world.drive(assign("certify", prefix=(wrong, *way[1:])))

    assert leaf.verdict is not None
    assert (leaf.reason, leaf.verdict.verdict) == ("replayed", "success")
    assert leaf.replay.diverged_at == 0
    assert "instead of 'another'" in leaf.replay.difference
    assert world.desktop.performed == [HI, SAVE]


async def test_a_rollout_reports_no_nodes() -> None:
    world = World()

    leaf = await world.drive(assign("rollout", is_greedy=True, samples=1))

    assert world.search.heard == []
    assert leaf.is_greedy


async def test_elements_are_kept_of_successes_only() -> None:
    success = await World().drive(assign())
    failure = await World().drive(assign(steps_max=1))

    assert all(step.observation.elements for step in success.steps)
    assert failure.verdict is not None
    assert failure.verdict.verdict == "failure"
    assert not any(step.observation.elements for step in failure.steps)


async def test_frames_never_travel_with_a_leaf() -> None:
    leaf = await World().drive(assign())

    assert all(step.observation.frame == b"" for step in leaf.steps)


def _crash(act: Act) -> None:
    if act.step == 1:
        raise FakeLostError("the X server is gone")


async def test_a_desktop_that_crashes_makes_the_leaf_infra_with_the_reason() -> None:
    desktop = FakeDesktop(note_screen(), trouble=_crash)
    world = World(desktop)

    leaf = await world.drive(assign())

    assert (leaf.reason, leaf.verdict) == ("infra", None)
    assert "the X server is gone" in leaf.detail


async def test_a_desktop_that_falls_silent_makes_the_leaf_infra(
    autojump_clock: MockClock,
) -> None:
    leaf = await World(FakeDesktop(note_screen(), silent_at=1)).drive(assign())

    assert (leaf.reason, leaf.verdict) == ("infra", None)
    assert "desktop/d-0 did not answer Act within 3 s" in leaf.detail
    assert len(leaf.steps) == 1


async def test_a_start_that_cannot_be_reached_is_infra_and_says_why() -> None:
    leaf = await World(FakeDesktop(note_screen(), resets=False)).drive(assign())

    assert leaf.detail == "ResetFailed: set-up step 1: no such file"


async def test_an_answer_of_another_episode_is_infra_and_says_why() -> None:
    leaf = await World(FakeDesktop(note_screen(), trouble=refuse)).drive(assign())

    assert (leaf.reason, leaf.detail) == ("infra", "ActFailed: no such window")


async def test_an_action_that_makes_no_sense_ends_the_branch_and_is_judged() -> None:
    def refuse_for_good(act: Act) -> ActFailed:
        return msgspec.structs.replace(refuse(act), is_refused=True)

    leaf = await World(FakeDesktop(note_screen(), trouble=refuse_for_good)).drive(assign())

    assert leaf.reason == "refused"
    assert leaf.verdict is not None
    assert leaf.steps == ()


async def test_a_policy_that_fails_is_infra_and_says_why() -> None:
    screen = msgspec.structs.replace(
        note_screen(), moves={("empty", "type hi"): "mute"}, proposals={"empty": ((HI, 8),)}
    )

    leaf = await World(screen=screen).drive(assign())

    assert leaf.detail == "ProposeFailed: the policy has lost its voice"


async def test_a_task_that_nobody_knows_is_infra() -> None:
    leaf = await World(task=None).drive(assign())

    assert leaf.reason == "infra"
    assert "no task note-000" in leaf.detail


async def test_a_verdict_of_infra_is_handed_on_as_it_is() -> None:
    desktop = FakeDesktop(note_screen())
    verdict = Verdict(verdict="infra", reason="the checker was killed")
    verifier = FakeVerifier(desktop, verdicts=[verdict])

    leaf = await World(desktop, verifier=verifier).drive(assign())  # type: ignore[arg-type]

    assert leaf.verdict == verdict


async def test_each_branch_has_a_desktop_of_its_own() -> None:
    world = World()
    async with world.open() as replay:
        for lease in (1, 2, 3):
            await replay.ask(Drive(assign=assign("gate", lease=lease)), timeout_s=20)

    assert len(set(world.desktop.episodes)) == 3


async def test_a_branch_that_is_asked_for_twice_is_driven_once() -> None:
    world = World()
    async with world.open() as replay:
        answers = [await replay.ask(Drive(assign=assign()), timeout_s=20) for _ in range(2)]

    assert answers[0] == answers[1]
    assert len(world.desktop.episodes) == 1
    assert world.desktop.performed == [HI, SAVE]


async def test_a_driver_that_starts_over_resets_a_desktop_that_did_not() -> None:
    world = World()
    for lease in (1, 2):
        await world.drive(assign(lease=lease))

    assert len(set(world.desktop.episodes)) == 2


async def test_a_branch_that_is_anothers_stops_before_its_next_replayed_action() -> None:
    world = World(search=FakeSearch(lapses_at=1))
    way = prefix(world.screen, HI, SAVE, Finish())

    leaf = await world.drive(assign("certify", prefix=way))

    assert (leaf.reason, leaf.detail) == ("infra", "the lease is over")
    assert world.desktop.performed == [HI]


async def test_a_head_that_is_away_stops_no_replay(autojump_clock: MockClock) -> None:
    world = World(search=FakeSearch(silent=range(100)))
    way = prefix(world.screen, HI, SAVE, Finish())

    leaf = await world.drive(assign("certify", prefix=way))

    assert leaf.verdict is not None
    assert leaf.verdict.verdict == "success"
    assert len(world.search.heard) == 1


async def test_a_node_is_told_until_the_search_has_heard_it(autojump_clock: MockClock) -> None:
    world = World(search=FakeSearch(silent=range(3)))

    leaf = await world.drive(assign())

    paths = [node.path for node in world.search.nodes()]
    assert leaf.reason == "finish"
    assert paths == [()] * 4 + [("type hi",), ("type hi", "key ctrl+s")]


@pytest.mark.parametrize(
    ("world", "cause"),
    [
        (lambda: World(FakeDesktop(note_screen(), resets=False)), "task"),
        (lambda: World(FakeDesktop(note_screen(), trouble=_crash)), "desktop"),
        (lambda: World(FakeDesktop(note_screen(), trouble=refuse)), "desktop"),
        (lambda: World(screen=_mute()), "policy"),
        (lambda: World(task=None), "head"),
        (lambda: World(verifier=_broken_verifier()), "verifier"),
    ],
)
async def test_what_is_lost_says_whose_fault_it_was(
    world: Callable[[], World], cause: str, autojump_clock: MockClock
) -> None:
    leaf = await world().drive(assign())

    assert (leaf.cause, leaf.verdict is None) == (cause, cause != "verifier")


def _mute() -> FakeScreen:
    return msgspec.structs.replace(
        note_screen(), moves={("empty", "type hi"): "mute"}, proposals={"empty": ((HI, 8),)}
    )


def _broken_verifier() -> Actor[Message]:
    verdict = Verdict(verdict="infra", reason="the checker was killed")
    return cast(Actor[Message], FakeVerifier(FakeDesktop(note_screen()), verdicts=[verdict]))
