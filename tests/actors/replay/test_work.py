"""A slot asks for work, keeps its lease while it drives, and hands in until it is answered."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec
import pytest
import trio
from trio.testing import MockClock

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.replay.work import Slot, work
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.desktop import FetchFrame, FrameFetched, FrameUnknown
from envs_node.messages.ledger import BlobStored, StoreBlob
from envs_node.messages.search import (
    Assign,
    Drive,
    Idle,
    LeafReached,
    LeaseLapsed,
    Renew,
    Renewed,
    WorkWanted,
)
from envs_node.messages.tasks import FetchTask, TaskFetched, TaskUnknown
from envs_node.policy.certify import certify_prefixes
from tests.actors.replay.driving import DESKTOP, TASK, assign
from tests.fakes import note_screen
from tests.policy.drive import drive

ME = ActorName("work/d-0")


class Scripted(Actor[Message]):
    """Answers by a function, and keeps what it heard with the time and its own name."""

    def __init__(
        self,
        name: str,
        story: list[tuple[str, Message]],
        answer: Callable[[Message], Message | None],
        *,
        delay_s: float = 0.0,
    ) -> None:
        self._name = name
        self._story = story
        self._answer = answer
        self._delay_s = delay_s

    async def hear(self, message: Message) -> Message | None:
        self._story.append((self._name, message))
        if self._delay_s and isinstance(message, Drive):
            await trio.sleep(self._delay_s)
        return self._answer(message)


class Head:
    """The head, a desktop and a replay actor around one worker, which is given these branches."""

    def __init__(self, *branches: Assign, drive_s: float = 0.0, is_head_up: bool = True) -> None:
        self.story: list[tuple[str, Message]] = []
        self.post = Post(RunId("test"))
        self.branches = list(branches)
        self.idle = trio.Event()
        self.unanswered = 0
        self.unheard = 0
        self.lapses = False
        self.knows_task = True
        self._is_head_up = is_head_up
        make = functools.partial(Scripted, story=self.story)
        self.scheduler = make("scheduler", answer=self._next)
        self.actors = {
            "ledger": make("ledger", answer=self._keep),
            "desktop/d-0": make("desktop", answer=self.show),
            "replay/d-0": make("replay", answer=self._drive, delay_s=drive_s),
            f"search/{TASK.id}": make("search", answer=self._hear_report),
        }

    def _next(self, message: Message) -> Message:
        if isinstance(message, FetchTask):
            return (
                TaskFetched(task=TASK)
                if self.knows_task
                else TaskUnknown(task_id=TASK.id, reason="no")
            )
        assert isinstance(message, WorkWanted)
        assert message.worker == ME
        if self.branches:
            return self.branches.pop(0)
        self.idle.set()
        return Idle(retry_ms=200)

    def _keep(self, message: Message) -> Message:
        assert isinstance(message, StoreBlob)
        return BlobStored(sha256=message.sha256)

    def show(self, message: Message) -> Message:
        assert isinstance(message, FetchFrame)
        return FrameFetched(frame=message.frame, png=b"png of " + message.frame.encode())

    def _drive(self, message: Message) -> Message:
        assert isinstance(message, Drive)
        return drive(note_screen(), message.assign)[1]

    def _hear_report(self, message: Message) -> Message | None:
        assert isinstance(message, Renew | LeafReached)
        if isinstance(message, Renew) and self.unheard:
            self.unheard -= 1
            return None
        if self.lapses:
            return LeaseLapsed(branch_id=message.branch_id, lease=message.lease, reason="over")
        if isinstance(message, LeafReached) and self.unanswered:
            self.unanswered -= 1
            return None
        return Renewed(branch_id=message.branch_id, lease=message.lease)

    async def serve_one_worker(self, until: trio.Event | None = None) -> None:
        """Let a worker work until there is nothing left to do."""
        refs = functools.partial(self.post.ref, sender=ME)
        slot = Slot(
            worker=ME,
            desktop_id=DESKTOP,
            replay=refs(ActorName("replay/d-0")),
            desktop=refs(ActorName("desktop/d-0")),
            scheduler=refs(ActorName("scheduler")),
            ledger=refs(ActorName("ledger")),
            refs=refs,
        )
        with trio.fail_after(300):
            async with trio.open_nursery() as nursery:
                for name, actor in self.actors.items():
                    await nursery.start(run_actor, actor, ActorName(name), self.post)
                nursery.start_soon(work, slot)
                if not self._is_head_up:
                    await trio.sleep(60)
                await nursery.start(run_actor, self.scheduler, ActorName("scheduler"), self.post)
                await (self.idle if until is None else until).wait()
                nursery.cancel_scope.cancel()

    def heard(self, name: str) -> list[Message]:
        """What one actor heard."""
        return [message for who, message in self.story if who == name]


def _certify() -> Assign:
    explored = drive(note_screen(), assign())[1]
    return assign("certify", prefix=certify_prefixes(explored)[0])


async def test_a_branch_is_driven_and_its_leaf_handed_in(autojump_clock: MockClock) -> None:
    head = Head(assign("gate"), assign())

    await head.serve_one_worker()

    leaves = [m for m in head.heard("search") if isinstance(m, LeafReached)]
    assert [leaf.kind for leaf in leaves] == ["gate", "explore"]
    assert head.heard("ledger") == []


async def test_the_lease_is_renewed_thrice_as_often_as_it_lapses(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(lease_ms=3000), drive_s=10.5)

    await head.serve_one_worker()

    renewals = [m for m in head.heard("search") if isinstance(m, Renew)]
    assert len(renewals) == 10
    assert set(renewals) == {Renew(branch_id=assign().branch_id, lease=7)}
    assert isinstance(head.heard("search")[-1], LeafReached)


async def test_a_report_without_an_answer_is_repeated_until_there_is_one(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign())
    head.unanswered = 3

    await head.serve_one_worker()

    leaves = [m for m in head.heard("search") if isinstance(m, LeafReached)]
    assert len(leaves) == 4
    assert len(set(map(repr, leaves))) == 1


async def test_a_certified_success_is_preceded_by_each_of_its_frames_once(
    autojump_clock: MockClock,
) -> None:
    head = Head(_certify())

    await head.serve_one_worker()

    kinds = [type(message) for _, message in head.story if not isinstance(message, Renew)]
    frames = [m.name for m in head.heard("ledger") if isinstance(m, StoreBlob)]
    (leaf,) = (m for m in head.heard("search") if isinstance(m, LeafReached))
    seen = [step.observation.signature.frame for step in leaf.steps]
    assert frames == list(dict.fromkeys(seen))
    assert kinds.index(LeafReached) > max(
        place for place, kind in enumerate(kinds) if kind is StoreBlob
    )


async def test_a_frame_that_is_gone_keeps_no_report_back(autojump_clock: MockClock) -> None:
    head = Head(_certify())

    def gone(message: Message) -> Message:
        assert isinstance(message, FetchFrame)
        return FrameUnknown(frame=message.frame, reason="dropped for space")

    head.actors["desktop/d-0"] = Scripted("desktop", head.story, gone)

    await head.serve_one_worker()

    assert head.heard("ledger") == []
    assert [type(m) for m in head.heard("search")] == [LeafReached]


async def test_a_head_that_is_away_is_asked_until_it_is_there(autojump_clock: MockClock) -> None:
    head = Head(assign(), is_head_up=False)

    await head.serve_one_worker()

    assert [type(m) for m in head.heard("search")] == [LeafReached]


@pytest.mark.parametrize("retry_ms", [0, 200])
async def test_an_idle_worker_asks_again_and_does_not_spin(
    autojump_clock: MockClock, retry_ms: int
) -> None:
    head = Head()
    asked = trio.Event()
    times: list[float] = []

    def idle(message: Message) -> Message:
        times.append(trio.current_time())
        if len(times) == 5:
            asked.set()
        return Idle(retry_ms=retry_ms)

    head.scheduler = Scripted("scheduler", head.story, idle)

    await head.serve_one_worker(asked)

    assert times[4] - times[0] >= 4 * max(retry_ms, 50) / 1000 - 1e-6
    assert msgspec.to_builtins(head.heard("scheduler")[0])["worker"] == ME


def _frames(head: Head) -> list[str]:
    return [m.name for m in head.heard("ledger") if isinstance(m, StoreBlob)]


def _leaves(head: Head) -> list[LeafReached]:
    return [m for m in head.heard("search") if isinstance(m, LeafReached)]


async def test_the_pictures_of_every_branch_follow_its_report_each_once(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(keep_frames="all"), assign(keep_frames="all", lease=8))

    await head.serve_one_worker()

    kinds = [type(message) for _, message in head.story]
    assert len(_frames(head)) == len(set(_frames(head))) == 3
    assert kinds.index(StoreBlob) > kinds.index(LeafReached)
    assert len(_leaves(head)) == 2


async def test_another_run_is_sent_the_pictures_anew(autojump_clock: MockClock) -> None:
    head = Head(*(assign(keep_frames="all", search_id=run) for run in (1, 2)))

    await head.serve_one_worker()

    assert len(_frames(head)) == 2 * len(set(_frames(head))) == 6


async def test_no_picture_is_kept_of_a_run_that_wants_none(autojump_clock: MockClock) -> None:
    head = Head(msgspec.structs.replace(_certify(), keep_frames="none"))

    await head.serve_one_worker()

    assert _frames(head) == []
    assert len(_leaves(head)) == 1


async def test_a_branch_that_is_anothers_is_not_reported(autojump_clock: MockClock) -> None:
    head = Head(assign(lease_ms=3000, keep_frames="all"), drive_s=2.5)
    head.lapses = True

    await head.serve_one_worker()

    assert _leaves(head) == []
    assert len([m for m in head.heard("search") if isinstance(m, Renew)]) == 1


async def test_a_finished_report_outlives_a_head_that_is_away_for_minutes(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(), assign(lease=8))
    head.unanswered = 50

    await head.serve_one_worker()

    leaves = _leaves(head)
    wanted = [m for m in head.heard("scheduler") if isinstance(m, WorkWanted)]
    assert [leaf.lease for leaf in leaves] == [7] * 51 + [8]
    assert [m.task_id for m in wanted] == [None, TASK.id, TASK.id]


async def test_a_report_that_another_run_does_not_know_is_dropped(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(), assign(lease=8))
    head.unanswered, head.knows_task = 1, False

    await head.serve_one_worker()

    assert [leaf.lease for leaf in _leaves(head)] == [7, 8]


async def test_a_driver_that_is_not_there_is_told_as_the_desktops_fault(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign())
    del head.actors["replay/d-0"]

    await head.serve_one_worker()

    (leaf,) = _leaves(head)
    assert (leaf.reason, leaf.cause, leaf.lease) == ("infra", "desktop", 7)


async def test_a_renewal_that_is_not_heard_is_said_again_before_the_lease_is_over(
    autojump_clock: MockClock,
) -> None:
    head = Head(assign(lease_ms=3000), drive_s=2.9)
    head.unheard = 2

    await head.serve_one_worker()

    assert len([m for m in head.heard("search") if isinstance(m, Renew)]) >= 3
