"""The post: which way an envelope takes, and what it says on it."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing

from envs_node.actors.loop import Answers, run_actor
from envs_node.actors.mailbox import (
    MAILBOX_LENGTH,
    AskTimeoutError,
    Mailbox,
    MailboxFullError,
)
from envs_node.actors.memory import MemoryLink, Slot
from envs_node.actors.post import Post, steady_clock
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, RunId
from envs_node.messages.codec import CodecError
from envs_node.messages.desktop import FrameFetched
from envs_node.messages.search import Idle, Tick, WorkWanted
from tests.actors.node_process import EchoActor

ME = ActorName("me")
ECHO = ActorName("echo/0")


async def test_a_route_by_prefix_leads_to_another_post(
    autojump_clock: trio.testing.MockClock,
) -> None:
    here, there, elsewhere = Post(RunId("r")), Post(RunId("r")), Post(RunId("r"))
    here.add_route("e", MemoryLink(elsewhere.deliver))
    here.add_route("echo/", MemoryLink(there.deliver, is_copying=True))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, EchoActor(), ECHO, there)

        answer = await here.ref(ECHO, sender=ME).ask(WorkWanted(worker=ME), timeout_s=1)

        assert answer == Idle(retry_ms=1)
        nursery.cancel_scope.cancel()


async def test_an_actor_here_is_nearer_than_a_route(
    autojump_clock: trio.testing.MockClock,
) -> None:
    here, there = Post(RunId("r")), Post(RunId("r"))
    here.add_route("", MemoryLink(there.deliver))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, EchoActor(), ECHO, here)

        answer = await here.ref(ECHO, sender=ME).ask(WorkWanted(worker=ME), timeout_s=1)

        assert answer == Idle(retry_ms=1)
        nursery.cancel_scope.cancel()


async def test_an_answer_names_the_request_that_caused_it() -> None:
    post, slot = Post(RunId("r"), clock_ns=lambda: 42, stamp="s"), Slot()
    mailbox = Mailbox(ECHO)
    post.register(mailbox)
    request = post.envelope(WorkWanted(worker=ME), sender=ME, to=ECHO)

    post.deliver(request, slot.put)
    (await mailbox.get()).answer(Idle(retry_ms=5))
    answer = await slot.get()

    assert answer is not None
    assert (answer.cause, answer.sender, answer.to) == (request.id, ECHO, ME)
    assert (answer.id, answer.sequence, answer.time_ns) == ("s-1", 1, 42)


def test_two_processes_never_make_the_same_id() -> None:
    posts = [Post(RunId("r")) for _ in range(50)]

    ids = {post.envelope(Tick(), sender=ME, to=ECHO).id for post in posts for _ in range(3)}

    assert len(ids) == 150


async def test_a_full_mailbox_refuses_what_is_told_and_holds_what_is_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post = Post(RunId("r"))
    post.register(Mailbox(ECHO))
    ref = post.ref(ECHO, sender=ME)
    for _ in range(MAILBOX_LENGTH):
        ref.tell(Tick())

    with pytest.raises(MailboxFullError):
        ref.tell(Tick())
    with pytest.raises(AskTimeoutError, match="echo/0 did not answer Tick within 1 s"):
        await ref.ask(Tick(), timeout_s=1)
    assert post.statistics()["busy"] > 5


async def test_what_is_told_to_nobody_is_counted() -> None:
    post = Post(RunId("r"))

    post.ref(ECHO, sender=ME).tell(Tick())

    assert post.statistics() == {"actors": 0, "routes": 0, "undelivered": 1, "busy": 0}


def test_a_name_is_registered_once() -> None:
    post = Post(RunId("r"))
    post.register(Mailbox(ECHO))

    with pytest.raises(ValueError, match="echo/0 is registered already"):
        post.register(Mailbox(ECHO))


def test_a_copying_link_refuses_what_could_not_travel() -> None:
    post = Post(RunId("r"))
    post.add_route("echo", MemoryLink(Post(RunId("r")).deliver, is_copying=True))

    with pytest.raises(CodecError):
        post.ref(ECHO, sender=ME).tell(FrameFetched(frame="f", png=bytes(WIRE_BYTES_MAX)))


def test_remembered_answers_are_bounded() -> None:
    post, answers = Post(RunId("r")), Answers(sender_max=2, senders_max=3)
    requests = [
        post.envelope(Tick(), sender=ActorName(f"s{sender}"), to=ECHO)
        for sender in range(5)
        for _ in range(4)
    ]

    for request in requests:
        answers.put(request, None)

    known = [answers.knows(request) for request in requests]
    assert known == [False] * 8 + [False, False, True, True] * 3


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_senders_clock_does_not_change_what_the_receiver_reads(
    autojump_clock: trio.testing.MockClock, is_here: bool
) -> None:
    hour_ns = 3600 * 10**9
    there = Post(RunId("r"), clock_ns=lambda: 10**18)
    here = Post(RunId("r"), clock_ns=lambda: 10**18 - hour_ns)
    here.add_route("", MemoryLink(there.deliver, is_copying=True))
    actor = EchoActor()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, actor, ECHO, there)

        speaker = there if is_here else here
        await speaker.ref(ECHO, sender=ME).ask(WorkWanted(worker=ME), timeout_s=1)

        assert actor.envelope.time_ns == 10**18
        nursery.cancel_scope.cancel()


def test_a_steady_clock_runs_as_the_monotonic_one_from_the_time_of_its_making() -> None:
    before_ns, clock, after_ns = time.time_ns(), steady_clock(), time.time_ns()
    first_ns, monotonic_ns = clock(), time.monotonic_ns()
    slack_ns = 10**9

    while time.monotonic_ns() < monotonic_ns + 10**7:
        pass
    gone_ns, monotonic_gone_ns = clock() - first_ns, time.monotonic_ns() - monotonic_ns

    assert before_ns - slack_ns <= first_ns <= after_ns + slack_ns
    assert abs(gone_ns - monotonic_gone_ns) < slack_ns
    assert gone_ns >= 10**7


def test_a_post_that_goes_on_stamps_no_time_before_the_one_that_was_reached() -> None:
    now = [500]
    post = Post(RunId("test"), clock_ns=lambda: now[0])

    def stamped_ns() -> int:
        name = ActorName("a")
        return post.envelope(Tick(), sender=name, to=name).time_ns

    post.go_on_from(400)
    assert stamped_ns() == 500
    post.go_on_from(10_000)
    post.go_on_from(9_000)
    assert stamped_ns() == 10_000
    now[0] += 7
    assert stamped_ns() == 10_007


async def test_the_mailboxes_where_messages_wait_are_named() -> None:
    post = Post(RunId("r"))
    post.register(Mailbox(ECHO))
    post.register(Mailbox(ActorName("idle")))

    post.ref(ECHO, sender=ME).tell(Tick())

    assert post.waiting() == ((ECHO, 1),)
