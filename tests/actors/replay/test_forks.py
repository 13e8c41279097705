"""A branch has its desktop kept where others will begin, and begins where one was kept."""

from __future__ import annotations

import functools
from pathlib import Path

from envs_node.actors.post import RefSource
from envs_node.actors.recorded import replay_actor
from envs_node.actors.recorder import Recorder
from envs_node.actors.replay.actor import ReplayActor
from envs_node.actors.replay.asking import Deadlines
from envs_node.actors.replay.branch import BranchRecord
from envs_node.actors.replay.forks import ForkPrices, actions_of
from envs_node.deploy.journals import thin
from envs_node.messages.actions import Action, Finish, Key, Type
from envs_node.messages.base import ActorName, BranchId, DesktopId
from envs_node.messages.desktop import Observation, ResetDone
from envs_node.messages.journal import JournalWriter, read_journal
from envs_node.messages.propose import Proposal
from envs_node.messages.search import Bucket, Drive, LeafReached
from tests.actors.replay.driving import DESKTOP, REPLAY, World, assign, prefix
from tests.fakes import START, FakeDesktop, click, note_screen

HI, SAVE = Type(text="hi"), Key(keys=("ctrl", "s"))
Kept = dict[tuple[Action, ...], tuple[Observation, ...]]


def forking(kept: Kept, *, refused: int = 0, reset_ms: int = 9000) -> World:
    desktop = FakeDesktop(note_screen(), kept=kept, reset_ms=reset_ms)
    desktop.forks_refused = refused
    return World(desktop, screen=desktop.screen)


def bucket(name: str, support: int) -> Bucket:
    proposal = Proposal(action=HI, text="", log_prob=-1.0)
    return Bucket(fingerprint=name, proposal=proposal, support=support, samples=8)


async def test_a_desktop_is_kept_where_a_second_bucket_will_be_bought_a_branch() -> None:
    kept: Kept = {}
    world = forking(kept)

    leaf = await world.drive(assign())

    agreed = [node.depth for node in world.search.nodes() if node.buckets[1:2]
              and node.buckets[1].support >= 2]  # fmt: skip
    assert agreed
    assert [len(actions) for actions in kept] == agreed
    assert leaf.cost.fork_ms == 60 * len(agreed)
    assert leaf.cost.wall_ms >= leaf.cost.reset_ms + leaf.cost.fork_ms


async def test_nothing_is_kept_where_coming_again_is_cheap_or_the_desktop_cannot() -> None:
    kept: Kept = {}

    await forking(kept, reset_ms=100).drive(assign())
    await World().drive(assign())

    assert kept == {}


async def test_a_branch_that_begins_on_a_copy_reports_every_step_as_one_that_replays_does() -> None:
    screen = note_screen()
    way = prefix(screen, click("Menu"), HI)
    kept: Kept = {}
    begun = screen.observe(START)
    after = screen.observe(screen.after(START, click("Menu")))
    kept[(click("Menu"),)] = (begun, after)

    replayed = await World().drive(assign(prefix=way))
    world = forking(kept)
    forked = await world.drive(assign(prefix=way))

    assert forked.steps == replayed.steps
    assert (forked.cost.forked_actions, forked.cost.replayed_actions) == (1, 1)
    assert (forked.replay.steps, forked.replay.equal, forked.replay.forked) == (2, 2, 1)
    assert (forked.cost.reset_ms, forked.cost.fork_ms) == (0, 40)
    assert world.desktop.performed[0] == click("Menu")


async def test_a_branch_from_the_start_begins_on_a_copy_of_the_start() -> None:
    screen = note_screen()
    kept: Kept = {(): (screen.observe(START),)}

    leaf = await forking(kept).drive(assign(strike_off=bucket("type hi", 3)))

    assert (leaf.cost.reset_ms, leaf.cost.fork_ms) == (0, 40)
    assert (leaf.cost.forked_actions, leaf.reason) == (0, "finish")


async def test_a_copy_that_stands_elsewhere_than_the_record_diverges_like_a_replay() -> None:
    screen = note_screen()
    way = prefix(screen, click("Menu"))
    kept: Kept = {(click("Menu"),): (screen.observe(START), screen.observe(START))}

    leaf = await forking(kept).drive(assign(prefix=way))

    assert (leaf.reason, leaf.replay.diverged_at) == ("diverged", 0)
    assert leaf.verdict is None


async def test_a_certification_and_a_gate_replay_in_full_though_there_is_a_copy() -> None:
    screen = note_screen()
    way = prefix(screen, HI, SAVE)
    kept: Kept = {(HI,): (screen.observe(START), screen.observe(screen.after(START, HI)))}

    leaf = await forking(kept).drive(assign("certify", prefix=way))

    assert (leaf.cost.forked_actions, leaf.cost.replayed_actions) == (0, 2)
    assert actions_of(assign("gate", prefix=way)) is None


def test_a_prefix_is_forked_up_to_where_the_policy_ended_it() -> None:
    way = prefix(note_screen(), HI, Finish(), SAVE)

    assert actions_of(assign("rollout", prefix=way)) == (HI,)


async def test_a_refused_fork_holds_no_branch_up() -> None:
    kept: Kept = {}

    leaf = await forking(kept, refused=100).drive(assign())

    assert leaf.reason == "finish"
    assert kept == {}
    assert leaf.cost.fork_ms == 0


def test_what_was_refused_is_asked_for_ever_more_seldom() -> None:
    prices, record = ForkPrices(), BranchRecord(assign())
    record.begin(
        ResetDone(
            desktop_id=DesktopId("d"), episode=1, observation=note_screen().observe(START),
            guest_pid=1, reset_ms=60_000, can_fork=True,
        )
    )  # fmt: skip
    buckets = (bucket("a", 4), bucket("b", 2))

    asked = []
    for look in range(40):
        if prices.is_fork_worth(buckets, assign(), record):
            asked.append(look)
            prices.learn_fork(0)

    assert asked == [0, 2, 6, 14, 30]
    assert not prices.is_fork_worth((bucket("a", 7), bucket("b", 1)), assign(), record)


def test_a_fork_that_takes_longer_is_worth_less() -> None:
    prices = ForkPrices()
    before = prices.fork_ms
    prices.learn_fork(5000)

    assert prices.fork_ms > before


def driver(source: RefSource) -> ReplayActor:
    """A fresh driver, as a replay of a journal makes it."""
    refs = functools.partial(source.ref, sender=REPLAY)
    return ReplayActor(
        refs(ActorName("desktop/d-0")),
        refs(ActorName("verifier/d-0")),
        refs,
        scheduler=ActorName("scheduler"),
        desktop_id=DESKTOP,
        deadlines=Deadlines(reset_s=5, act_s=3, propose_s=4, verify_s=6),
    )


async def test_a_journal_with_forks_replays_to_the_same_decisions(tmp_path: Path) -> None:
    kept: Kept = {}
    world = forking(kept)
    with JournalWriter(tmp_path) as writer:
        world.post.recorder = Recorder(writer, wants=lambda name: name == REPLAY, thin=thin)
        async with world.open() as replay:
            first = await replay.ask(Drive(assign=assign()), timeout_s=50)
            way = prefix(world.screen, *next(iter(sorted(kept, key=len, reverse=True))))
            onward = assign(prefix=way, branch_id=BranchId("c"))
            second = await replay.ask(Drive(assign=onward), timeout_s=50)

    count = await replay_actor(REPLAY, read_journal(tmp_path), driver, thin=thin)

    assert isinstance(first, LeafReached)
    assert isinstance(second, LeafReached)
    assert first.cost.fork_ms > 0
    assert second.cost.forked_actions == len(way) > 0
    assert (count.heard, count.damaged) == (2, 0)
    assert count.decisions > 10
