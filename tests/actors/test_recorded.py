"""A journalled actor is replayed to the same decisions, and a changed byte is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Mailbox
from envs_node.actors.post import Post, RefSource
from envs_node.actors.recorded import DecisionDiffers, Passed, replay_actor
from envs_node.actors.recorder import Recorder
from envs_node.messages.base import ActorName, EnvsError, Message, RunId
from envs_node.messages.journal import JournalWriter, read_journal
from envs_node.messages.ledger import BlobStored, StoreBlob
from envs_node.messages.search import Idle, Tick, WorkWanted

ASKER = ActorName("test/asker")
BROKER = ActorName("broker")
STORE = ActorName("store")
ABSENT = ActorName("absent")


class StoreActor(Actor[StoreBlob]):
    """Takes as long as the digest says, so that answers overtake each other."""

    async def hear(self, message: StoreBlob) -> Message:
        await trio.sleep(float(message.sha256))
        return BlobStored(sha256=message.sha256 + "!")


class BrokerActor(Actor[WorkWanted]):
    """Asks two stores at once, and answers in the order their answers came."""

    def __init__(self, source: RefSource, *, bias: int = 0) -> None:
        self._refs = [source.ref(ActorName(f"store/{n}"), sender=BROKER) for n in range(2)]
        self._silent = source.ref(STORE, sender=BROKER)
        self._absent = source.ref(ABSENT, sender=BROKER)
        self._bias = bias
        self._count = 0

    async def hear(self, message: WorkWanted) -> Message:
        self._count += 1
        order: list[str] = []

        async def store(number: int, sha256: str) -> None:
            answer = await self._refs[number].ask(
                StoreBlob(name="n", sha256=sha256, kind="png", data=b"x" * 100),
                timeout_s=60,
            )
            assert isinstance(answer, BlobStored)
            order.append(answer.sha256)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store, 0, "3")
            nursery.start_soon(store, 1, "1")
        self._silent.tell(Tick())
        try:
            await self._silent.ask(Tick(), timeout_s=2)
        except AskTimeoutError:
            order.append("late")
        try:
            await self._absent.ask(Tick(), timeout_s=2)
        except ActorCrashedError:
            order.append("absent")
        assert order == ["1!", "3!", "late", "absent"]
        return Idle(retry_ms=sum(map(ord, message.worker)) + self._count + self._bias)


def thin(message: Message) -> Message:
    if isinstance(message, StoreBlob):
        return msgspec.structs.replace(message, data=b"")
    return message


async def record(folder: Path) -> None:
    with JournalWriter(folder) as writer:
        recorder = Recorder(writer, wants=lambda name: name == BROKER, thin=thin)
        post = Post(RunId("r"), clock_ns=lambda: 7, stamp="s", recorder=recorder)
        post.register(Mailbox(STORE))
        async with trio.open_nursery() as nursery:
            for number in range(2):
                store = ActorName(f"store/{number}")
                await nursery.start(run_actor, StoreActor(), store, post)
            await nursery.start(run_actor, BrokerActor(post), BROKER, post)
            for worker in ("a", "bb", "ccc"):
                request = WorkWanted(worker=ActorName(worker))
                await post.ref(BROKER, sender=ASKER).ask(request, timeout_s=60)
            nursery.cancel_scope.cancel()


async def test_the_same_actor_decides_the_same(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    await record(tmp_path)

    count = await replay_actor(BROKER, read_journal(tmp_path), BrokerActor, thin=thin)

    assert (count.lives, count.heard, count.decisions, count.damaged) == (1, 3, 18, 0)


async def test_who_watches_hears_of_every_entry_once_in_place(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    await record(tmp_path)
    entries = list(read_journal(tmp_path))
    passed: list[Passed] = []

    def watch(now: Passed) -> bool:
        passed.append(now)
        return False

    await replay_actor(BROKER, entries, BrokerActor, thin=thin, watch=watch)

    assert [p.place for p in sorted(passed, key=lambda p: p.place)] == list(range(len(entries)))
    assert all(p.entry == entries[p.place] for p in passed)
    assert all(p.is_equal for p in passed)
    decided = [p for p in passed if p.entry.kind in ("said", "answered")]
    assert all(p.entry.envelope and p.said == p.entry.envelope.message for p in decided)


async def test_who_watches_may_end_the_replay_at_any_entry(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    await record(tmp_path)
    entries = list(read_journal(tmp_path))

    for last in range(len(entries)):
        passed: list[int] = []

        def watch(now: Passed, passed: list[int] = passed, last: int = last) -> bool:
            passed.append(now.place)
            return now.place == last

        await replay_actor(BROKER, entries, BrokerActor, thin=thin, watch=watch)

        assert passed[-1] == last


async def test_another_actor_is_found_out_at_its_first_other_decision(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    await record(tmp_path)

    with pytest.raises(DecisionDiffers, match="decision 5 of broker differs") as caught:
        await replay_actor(
            BROKER, read_journal(tmp_path), lambda source: BrokerActor(source, bias=1), thin=thin
        )

    found = enumerate(read_journal(tmp_path))
    assert caught.value.place == next(n for n, e in found if e.kind == "answered")
    assert caught.value.recorded == Idle(retry_ms=98)
    assert caught.value.said == Idle(retry_ms=99)


async def test_one_changed_byte_names_the_first_decision_that_differs(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    await record(tmp_path)
    path = tmp_path / "000000.journal"
    path.write_bytes(path.read_bytes().replace(b"\xa2bb", b"\xa2bc"))

    with pytest.raises(DecisionDiffers, match="decision 11 of broker differs") as caught:
        await replay_actor(BROKER, read_journal(tmp_path, strict=False), BrokerActor, thin=thin)

    assert caught.value.recorded == Idle(retry_ms=198)
    assert caught.value.said == Idle(retry_ms=199)


@pytest.mark.parametrize("missing", range(1, 12))
async def test_a_record_that_ends_early_is_replayed_to_its_end(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, missing: int
) -> None:
    await record(tmp_path)
    entries = list(read_journal(tmp_path))

    count = await replay_actor(BROKER, entries[:-missing], BrokerActor, thin=thin)

    assert count.heard in (2, 3)


async def test_a_message_left_unsaid_is_a_difference(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    class LazyActor(Actor[WorkWanted]):
        async def hear(self, message: WorkWanted) -> Message:
            return Idle(retry_ms=1)

    await record(tmp_path)
    make: Callable[[RefSource], Actor[WorkWanted]] = lambda source: LazyActor()  # noqa: E731

    with pytest.raises(DecisionDiffers, match="now None") as caught:
        await replay_actor(BROKER, read_journal(tmp_path), make, thin=thin)

    assert caught.value.index == 0
    assert isinstance(caught.value.recorded, StoreBlob)
    assert caught.value.recorded.data == b""


class FrailActor(Actor[WorkWanted]):
    """Crashes when the store does not answer."""

    def __init__(self, source: RefSource) -> None:
        self._store = source.ref(STORE, sender=BROKER)
        self._count = 0

    async def hear(self, message: WorkWanted) -> Message:
        self._count += 1
        await self._store.ask(Tick(), timeout_s=self._count)
        return Idle(retry_ms=self._count)


async def test_a_crash_and_the_life_after_it_are_replayed_too(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    with JournalWriter(tmp_path) as writer:
        post = Post(RunId("r"), recorder=Recorder(writer))
        post.register(Mailbox(STORE))
        for _ in range(2):
            with pytest.RaisesGroup(AskTimeoutError, ActorCrashedError):
                async with trio.open_nursery() as nursery:
                    await nursery.start(run_actor, FrailActor(post), BROKER, post)
                    request = WorkWanted(worker=ASKER)
                    await post.ref(BROKER, sender=ASKER).ask(request, timeout_s=60)

    count = await replay_actor(BROKER, read_journal(tmp_path), FrailActor)

    assert (count.lives, count.heard, count.decisions) == (2, 2, 2)


class HastyActor(Actor[WorkWanted]):
    """Asks, and turns away before an answer comes."""

    def __init__(self, source: RefSource) -> None:
        self._store = source.ref(STORE, sender=BROKER)

    async def hear(self, message: WorkWanted) -> Message:
        with trio.move_on_after(1):
            await self._store.ask(Tick(), timeout_s=60)
        return Idle(retry_ms=1)


async def test_an_ask_that_the_actor_gave_up_is_given_up_again(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    with JournalWriter(tmp_path) as writer:
        post = Post(RunId("r"), recorder=Recorder(writer))
        post.register(Mailbox(STORE))
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, HastyActor(post), BROKER, post)
            for _ in range(2):
                request = WorkWanted(worker=ASKER)
                await post.ref(BROKER, sender=ASKER).ask(request, timeout_s=60)
            nursery.cancel_scope.cancel()

    count = await replay_actor(BROKER, read_journal(tmp_path), HastyActor)

    assert (count.heard, count.decisions) == (2, 4)


class OrderedActor(Actor[WorkWanted]):
    """Asks two stores, one after the other."""

    def __init__(self, source: RefSource, *, order: tuple[int, int] = (0, 1)) -> None:
        self._refs = [source.ref(ActorName(f"store/{n}"), sender=BROKER) for n in order]
        self._order = order

    async def hear(self, message: WorkWanted) -> Message:
        for number, ref in zip(self._order, self._refs, strict=True):
            await ref.ask(
                StoreBlob(name="n", sha256=str(number), kind="png", data=b""), timeout_s=60
            )
        return Idle(retry_ms=1)


async def test_another_order_of_asking_is_a_difference(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    with JournalWriter(tmp_path) as writer:
        post = Post(RunId("r"), recorder=Recorder(writer))
        async with trio.open_nursery() as nursery:
            for number in range(2):
                store = ActorName(f"store/{number}")
                await nursery.start(run_actor, StoreActor(), store, post)
            await nursery.start(run_actor, OrderedActor(post), BROKER, post)
            request = WorkWanted(worker=ASKER)
            await post.ref(BROKER, sender=ASKER).ask(request, timeout_s=60)
            nursery.cancel_scope.cancel()

    with pytest.raises(DecisionDiffers) as caught:
        await replay_actor(
            BROKER, read_journal(tmp_path), lambda source: OrderedActor(source, order=(1, 0))
        )

    assert isinstance(caught.value.recorded, StoreBlob)
    assert caught.value.recorded.sha256 == "0"


class PatientActor(Actor[WorkWanted]):
    """Asks, and waits long; crashes over the answer where there is no room to record it."""

    def __init__(self, source: RefSource, *, has_room: bool = True) -> None:
        self._store = source.ref(ActorName("store/0"), sender=BROKER)
        self._has_room = has_room

    async def hear(self, message: WorkWanted) -> Message:
        blob = StoreBlob(name="n", sha256="1", kind="png", data=b"x")
        await self._store.ask(blob, timeout_s=3600)
        if not self._has_room:
            raise EnvsError("no room")
        return Idle(retry_ms=1)


async def test_a_crash_over_an_answer_that_found_no_room_is_replayed_without_waiting_for_it(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    with JournalWriter(tmp_path) as writer:
        post = Post(RunId("r"), recorder=Recorder(writer, wants=lambda name: name == BROKER))
        with pytest.RaisesGroup(EnvsError, ActorCrashedError):
            async with trio.open_nursery() as nursery:
                await nursery.start(run_actor, StoreActor(), ActorName("store/0"), post)
                crashing = PatientActor(post, has_room=False)
                await nursery.start(run_actor, crashing, BROKER, post)
                request = WorkWanted(worker=ASKER)
                await post.ref(BROKER, sender=ASKER).ask(request, timeout_s=60)
    kept = [entry for entry in read_journal(tmp_path) if entry.kind != "received"]
    start_s = trio.current_time()

    count = await replay_actor(BROKER, kept, PatientActor)

    assert (count.lives, count.heard, count.decisions) == (1, 1, 1)
    assert trio.current_time() - start_s < 60
