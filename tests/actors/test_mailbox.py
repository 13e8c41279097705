"""The mailbox: bounded, in order for each sender, and nobody is left waiting at it."""

from __future__ import annotations

import itertools
from functools import partial
from random import Random

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.actors.loop import Answers, run_actor
from envs_node.actors.mailbox import (
    ActorCrashedError,
    AskTimeoutError,
    Delivery,
    Mailbox,
    MailboxFullError,
    Ref,
)
from envs_node.actors.memory import MemoryLink
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, Envelope, Message, RunId
from envs_node.messages.lifecycle import ActorFailed
from envs_node.messages.search import Idle, Tick, WorkWanted
from tests.actors.slow_actors import SlowActor

ME = ActorName("me")
SLOW = ActorName("slow")


def wanted(name: str) -> WorkWanted:
    return WorkWanted(worker=ActorName(name))


def delivery(post: Post, sender: str, name: str) -> Delivery:
    envelope = post.envelope(wanted(name), sender=ActorName(sender), to=SLOW)
    return Delivery(envelope=envelope, answer=lambda _: None)


def names(heard: list[Message]) -> list[str]:
    return [message.worker for message in heard if isinstance(message, WorkWanted)]


Status = trio.TaskStatus[None]
Talk = list[tuple[int, float, bool]]
"""What is said, one after another: by which sender, how long after the one before, and whether
its sender waits for the answer before it says more."""


@settings(max_examples=150, deadline=None)
@given(
    talk=st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 0.05), st.booleans()), min_size=1, max_size=25
    ),
    length=st.integers(0, 2),
    hear_s=st.floats(0, 0.05),
    is_far=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_a_tiny_mailbox_loses_doubles_and_reorders_nothing_of_a_sender(
    talk: Talk, length: int, hear_s: float, is_far: bool, seed: int
) -> None:
    """Each sender's requests overlap where it does not wait; all of them come in its order."""
    actor = SlowActor(hear_s=hear_s)
    asked: dict[int, list[str]] = {sender: [] for sender in range(4)}

    async def main() -> None:
        there = Post(RunId("r"), chance=Random(seed))
        here = Post(RunId("r"), chance=Random(seed)) if is_far else there
        here.add_route("", MemoryLink(there.deliver, is_copying=True))
        async with trio.open_nursery() as nursery:
            running = partial(run_actor, actor, SLOW, there, mailbox_length=length)
            await nursery.start(running)
            async with trio.open_nursery() as asking:
                for number, (sender, pause_s, does_wait) in enumerate(talk):
                    name = f"{sender}/{number}"
                    asked[sender].append(name)
                    ref = here.ref(SLOW, sender=ActorName(f"sender/{sender}"))
                    if does_wait:
                        await ask(ref, name)
                    else:
                        await asking.start(ask, ref, name)
                    await trio.sleep(pause_s)
            nursery.cancel_scope.cancel()

    async def ask(ref: Ref, name: str, task_status: Status = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        assert isinstance(await ref.ask(wanted(name), timeout_s=600), Idle)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    heard = names(actor.heard)
    assert len(heard) == len(talk)
    for sender, mine in asked.items():
        assert [name for name in heard if name.startswith(f"{sender}/")] == mine


async def test_what_comes_after_a_request_that_found_no_room_waits_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post, mailbox = Post(RunId("r")), Mailbox(SLOW, length=1)
    first, second, third = (delivery(post, "a", name) for name in "123")
    other = delivery(post, "b", "4")
    mailbox.put_nowait(first)
    for turned_away in (second, third, second):
        with pytest.raises(MailboxFullError):
            mailbox.put_nowait(turned_away, is_repeated=True)
    await mailbox.get()

    with pytest.raises(MailboxFullError):
        mailbox.put_nowait(third, is_repeated=True)
    mailbox.put_nowait(second, is_repeated=True)
    await mailbox.get()
    mailbox.put_nowait(third, is_repeated=True)
    await mailbox.get()
    mailbox.put_nowait(other)

    assert mailbox.statistics() == {"waiting": 1, "turned_away": 0}


async def test_a_request_that_its_sender_gave_up_holds_up_nothing_for_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post, mailbox = Post(RunId("r")), Mailbox(SLOW, length=1)
    mailbox.put_nowait(delivery(post, "a", "1"))
    with pytest.raises(MailboxFullError):
        mailbox.put_nowait(delivery(post, "a", "2"), is_repeated=True)
    await mailbox.get()

    with pytest.raises(MailboxFullError):
        mailbox.put_nowait(delivery(post, "a", "3"))
    await trio.sleep(2.6)
    mailbox.put_nowait(delivery(post, "a", "4"))

    assert mailbox.statistics() == {"waiting": 1, "turned_away": 0}


async def test_senders_without_end_do_not_fill_a_full_mailboxs_memory(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post, mailbox = Post(RunId("r")), Mailbox(SLOW, length=0)

    for number in range(5000):
        with pytest.raises(MailboxFullError):
            mailbox.put_nowait(delivery(post, f"s{number}", "x"), is_repeated=True)

    assert mailbox.statistics()["turned_away"] <= 1024


async def test_a_receiver_that_is_cancelled_again_and_again_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row E11: random cancels around every receive; 10,000 items, none lost or doubled."""
    post, mailbox, chance = Post(RunId("r")), Mailbox(SLOW, length=8), Random(3)
    got: list[Envelope[Message]] = []
    sent = [delivery(post, "a", str(number)) for number in range(10_000)]

    async def receive() -> None:
        while len(got) < len(sent):
            with trio.CancelScope() as scope:
                if chance.random() < 0.4:
                    scope.cancel()
                elif chance.random() < 0.2:
                    scope.deadline = trio.current_time() + 0.001
                got.append((await mailbox.get()).envelope)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        for item in sent:
            while mailbox.statistics()["waiting"] == 8:
                await trio.lowlevel.checkpoint()
            mailbox.put_nowait(item)

    assert got == [item.envelope for item in sent]


@pytest.mark.parametrize("length", [0, 1, 4])
async def test_a_request_that_comes_again_while_the_first_waits_is_done_once(
    autojump_clock: trio.testing.MockClock, length: int
) -> None:
    post, actor = Post(RunId("r")), SlowActor(hear_s=0.5)
    request = post.envelope(wanted("x"), sender=ME, to=SLOW)
    answers: list[Message] = []

    async def ask(pause_s: float) -> None:
        await trio.sleep(pause_s)
        answers.append((await post.ask(request, timeout_s=60)).message)

    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_actor, actor, SLOW, post, mailbox_length=length))
        async with trio.open_nursery() as asking:
            for pause_s in (0, 0, 0.1, 0.6, 0.7, 3.0):
                asking.start_soon(ask, pause_s)
        nursery.cancel_scope.cancel()

    assert answers == [Idle(retry_ms=1)] * 6
    assert actor.heard == [wanted("x")]


async def test_a_deadline_ends_the_waiting_at_a_full_mailbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post = Post(RunId("r"))
    post.register(Mailbox(SLOW, length=0))

    started_s = trio.current_time()
    with pytest.raises(AskTimeoutError):
        await post.ref(SLOW, sender=ME).ask(Tick(), timeout_s=7)

    assert trio.current_time() - started_s == pytest.approx(7)
    assert 7 / 0.5 < post.statistics()["busy"] < 7 / 0.25 + 10


async def test_everybody_who_waits_at_an_evicted_actor_is_told_and_its_name_is_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row E10: an actor that ignores its cancellation; a same-named one takes over."""
    post, stuck, fresh = Post(RunId("r")), SlowActor(stuck_s=60), SlowActor()
    reasons: list[str] = []

    async def ask(name: str) -> None:
        with pytest.raises(ActorCrashedError) as caught:
            await post.ref(SLOW, sender=ActorName(name)).ask(wanted(name), timeout_s=600)
        reasons.append(caught.value.reason)

    scope = trio.CancelScope()

    async def live(task_status: Status) -> None:
        with scope:
            await run_actor(stuck, SLOW, post, task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(live)
        async with trio.open_nursery() as asking:
            for name in "abc":
                asking.start_soon(ask, name)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not reasons, "it ignores that it is cancelled"
            assert post.evict(SLOW, reason="it did not end")
        await nursery.start(run_actor, fresh, SLOW, post)
        answer = await post.ref(SLOW, sender=ME).ask(wanted("d"), timeout_s=1)
        await trio.sleep(120)
        again = await post.ref(SLOW, sender=ME).ask(wanted("e"), timeout_s=1)
        nursery.cancel_scope.cancel()

    assert reasons == ["it did not end"] * 3
    assert (answer, again) == (Idle(retry_ms=1), Idle(retry_ms=2))
    assert len(stuck.heard) == 1, "what waited was not heard by the one that was given up"
    assert stuck.is_stopped
    assert not post.evict(SLOW)


async def test_an_actor_that_is_evicted_while_it_waits_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post = Post(RunId("r"))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, SlowActor(), SLOW, post)
        post.evict(SLOW)

    assert post.names() == ()


async def test_a_closed_mailbox_answers_each_delivery_once() -> None:
    post, mailbox, given = Post(RunId("r")), Mailbox(SLOW), list[object]()
    for number in itertools.count():
        if number == 3:
            break
        envelope = post.envelope(Tick(), sender=ME, to=SLOW)
        mailbox.put_nowait(Delivery(envelope=envelope, answer=given.append))
    await mailbox.get()
    failed = ActorFailed(to=SLOW, reason="gone")

    mailbox.close(failed)
    mailbox.answer(Idle(retry_ms=1))
    mailbox.close(failed)

    assert given == [failed] * 3


def test_answers_are_remembered_by_sender_and_id() -> None:
    post, answers = Post(RunId("r")), Answers()
    request, other = (post.envelope(Tick(), sender=ME, to=SLOW) for _ in range(2))

    answers.put(request, Idle(retry_ms=1))

    assert answers.knows(request)
    assert not answers.knows(other)
