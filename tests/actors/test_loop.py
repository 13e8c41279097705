"""The receive loop over the memory transport: once each, in order, and nobody waits in vain."""

from __future__ import annotations

import contextlib

import pytest
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Mailbox
from envs_node.actors.memory import Slot
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.search import Idle, ProgressWanted, Tick, WorkWanted

ME = ActorName("test/me")
ECHO = ActorName("echo")


class EchoActor(Actor[WorkWanted | Tick | ProgressWanted]):
    """Counts what it hears. `WorkWanted` is answered by the count, `ProgressWanted` kills it."""

    def __init__(self, *, dies_in: str = "", hear_s: float = 0.0) -> None:
        self.heard: list[Message] = []
        self.is_stopped = False
        self._dies_in = dies_in
        self._hear_s = hear_s

    async def start(self) -> None:
        if self._dies_in == "start":
            raise RuntimeError("no desktop")

    async def hear(self, message: Message) -> Message | None:
        self.heard.append(message)
        await trio.sleep(self._hear_s)
        match message:
            case ProgressWanted():
                raise RuntimeError("boom")
            case WorkWanted():
                return Idle(retry_ms=len(self.heard))
        return None

    async def stop(self) -> None:
        self.is_stopped = True
        if self._dies_in == "stop":
            raise RuntimeError("the disk is gone")


def make_post() -> Post:
    return Post(RunId("r"), clock_ns=lambda: 7, stamp="s")


async def test_a_question_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    post = make_post()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, EchoActor(), ECHO, post)

        answer = await post.ref(ECHO, sender=ME).ask(WorkWanted(worker=ME), timeout_s=1)

        assert answer == Idle(retry_ms=1)
        nursery.cancel_scope.cancel()


async def test_a_name_that_nobody_has_fails_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ActorCrashedError, match="nobody of that name"):
        await make_post().ref(ECHO, sender=ME).ask(Tick(), timeout_s=60)

    assert trio.current_time() < 1e9


async def test_no_answer_in_time_is_an_error_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post = make_post()
    post.register(Mailbox(ECHO))

    with pytest.raises(AskTimeoutError, match="echo did not answer Tick within 5 s"):
        await post.ref(ECHO, sender=ME).ask(Tick(), timeout_s=5)


@pytest.mark.parametrize("apart_s", [0.0, 0.5, 2.0])
async def test_asked_twice_it_answers_twice_and_does_it_once(
    autojump_clock: trio.testing.MockClock, apart_s: float
) -> None:
    post, actor = make_post(), EchoActor(hear_s=1.0)
    request = post.envelope(WorkWanted(worker=ME), sender=ME, to=ECHO)
    first, second = Slot(), Slot()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, actor, ECHO, post)

        post.deliver(request, first.put)
        await trio.sleep(apart_s)
        post.deliver(request, second.put)
        answers = [await first.get(), await second.get()]

        assert [a.message for a in answers if a] == [Idle(retry_ms=1)] * 2
        assert len(actor.heard) == 1
        nursery.cancel_scope.cancel()


async def test_who_waits_at_a_crashed_actor_is_told_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    post, actor = make_post(), EchoActor(hear_s=1.0)
    reasons: list[str] = []

    async def ask(message: Message) -> None:
        with pytest.raises(ActorCrashedError) as caught:
            await post.ref(ECHO, sender=ME).ask(message, timeout_s=600)
        reasons.append(caught.value.reason)

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="boom")):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, actor, ECHO, post)
            async with trio.open_nursery() as askers:
                askers.start_soon(ask, ProgressWanted())
                await trio.testing.wait_all_tasks_blocked()
                askers.start_soon(ask, Tick())
                askers.start_soon(ask, Tick())

    assert reasons == ["it crashed: RuntimeError('boom')"] * 3
    assert actor.is_stopped
    assert post.names() == ()


@pytest.mark.parametrize("dies_in", ["", "start"])
async def test_who_waits_at_an_actor_that_ends_is_told_at_once(
    autojump_clock: trio.testing.MockClock, dies_in: str
) -> None:
    class LateActor(EchoActor):
        async def start(self) -> None:
            await trio.sleep(1)
            await super().start()

    post = make_post()
    reasons: list[str] = []

    async def ask() -> None:
        with pytest.raises(ActorCrashedError) as caught:
            await post.ref(ECHO, sender=ME).ask(Tick(), timeout_s=600)
        reasons.append(caught.value.reason)

    async def live() -> None:
        with trio.move_on_after(2), contextlib.suppress(RuntimeError):
            await run_actor(LateActor(dies_in=dies_in, hear_s=60), ECHO, post)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(ask)

    reason = "it crashed: RuntimeError('no desktop')" if dies_in else "it was stopped"
    assert reasons == [reason] * 3


@pytest.mark.parametrize("place", ["start", "stop"])
async def test_an_actor_that_dies_outside_of_hearing_is_gone_from_the_post(
    autojump_clock: trio.testing.MockClock, place: str
) -> None:
    post, actor = make_post(), EchoActor(dies_in=place)

    with pytest.raises(RuntimeError):
        with trio.move_on_after(1):
            await run_actor(actor, ECHO, post)

    assert actor.is_stopped
    assert post.names() == ()


async def test_a_stop_that_hangs_is_cut_short(autojump_clock: trio.testing.MockClock) -> None:
    class HangingActor(EchoActor):
        async def stop(self) -> None:
            await trio.sleep_forever()

    started_s = trio.current_time()
    with trio.move_on_after(1):
        await run_actor(HangingActor(), ECHO, make_post(), stop_s=3)

    assert trio.current_time() - started_s == pytest.approx(4)


async def test_what_an_actor_does_not_hear_is_refused_and_it_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class StrictActor(EchoActor):
        """Hears what its base hears."""

    post = make_post()
    actor = StrictActor()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_actor, actor, ECHO, post)
        ref = post.ref(ECHO, sender=ME)

        for stray in (Idle(retry_ms=1), Idle(retry_ms=2)):
            with pytest.raises(ActorCrashedError, match="does not hear Idle"):
                await ref.ask(stray, timeout_s=1)
        ref.tell(Idle(retry_ms=3))

        assert await ref.ask(WorkWanted(worker=ME), timeout_s=1) == Idle(retry_ms=1)
        assert actor.heard == [WorkWanted(worker=ME)]
        nursery.cancel_scope.cancel()
