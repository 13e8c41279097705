"""A head, a desktop and a replay actor around one worker; all but the worker are scripted."""

from __future__ import annotations

import functools
from collections.abc import Callable

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.replay.work import Slot, work
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.desktop import FetchFrame, FrameFetched
from envs_node.messages.ledger import BlobsLacking, BlobStored, BlobsWanted, StoreBlob
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
        if self._delay_s and isinstance(message, Drive | BlobsWanted):
            await trio.sleep(self._delay_s)
        return self._answer(message)


class Head:
    """The head, a desktop and a replay actor around one worker, which is given these branches."""

    def __init__(self, *branches: Assign, drive_s: float = 0.0, is_head_up: bool = True) -> None:
        self.story: list[tuple[str, Message]] = []
        self.post = Post(RunId("test"))
        self.branches = list(branches)
        self.idle = trio.Event()
        self.kept: set[str] = set()
        """Pictures that the ledger has from others."""
        self.unanswered = 0
        self.unheard = 0
        self.lapses = False
        self.knows_task = True
        self._is_head_up = is_head_up
        make = functools.partial(Scripted, story=self.story)
        self.scheduler = make("scheduler", answer=self._next)
        self.actors = {
            "ledger": make("ledger", answer=self.keep),
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

    def keep(self, message: Message) -> Message:
        if isinstance(message, BlobsWanted):
            return BlobsLacking(names=tuple(n for n in message.names if n not in self.kept))
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


def certifying() -> Assign:
    """A branch that certifies a success."""
    explored = drive(note_screen(), assign())[1]
    return assign("certify", prefix=certify_prefixes(explored)[0])


def stored(head: Head) -> list[str]:
    """The pictures that the ledger was sent, in order."""
    return [m.name for m in head.heard("ledger") if isinstance(m, StoreBlob)]


def leaves(head: Head) -> list[LeafReached]:
    """The reports that the search was handed, in order."""
    return [m for m in head.heard("search") if isinstance(m, LeafReached)]
