"""A replay actor among fakes: what it needs to drive a branch, and the branches to drive."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import cast

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.actors.replay.actor import ReplayActor
from envs_node.actors.replay.asking import Deadlines
from envs_node.messages.base import ActorName, BranchId, DesktopId, Message, RunId
from envs_node.messages.search import (
    Assign,
    BranchKind,
    Drive,
    LeafReached,
    LeaseLapsed,
    NodeReached,
    PrefixStep,
    Renewed,
)
from envs_node.messages.tasks import FetchTask, Task, TaskFetched, TaskUnknown
from envs_node.policy.fingerprint import fingerprint
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.tree import Supervisor
from tests.fakes import (
    START,
    FakeDesktop,
    FakeProposer,
    FakeScreen,
    FakeVerifier,
    fake_task,
    note_screen,
)

TASK = fake_task()
DESKTOP = DesktopId("d-0")
REPLAY, TEST = ActorName("replay/d-0"), ActorName("test")


class FakeScheduler(Actor[FetchTask]):
    """Knows one task, or none."""

    def __init__(self, task: Task | None) -> None:
        self._task = task

    async def hear(self, message: FetchTask) -> Message:
        if self._task is None:
            return TaskUnknown(task_id=message.task_id, reason="not a task of this run")
        return TaskFetched(task=self._task)


class FakeSearch(Actor[Message]):
    """Keeps what is reported; from report number `lapses_at` on, the lease is over.

    The reports of these numbers are not answered.
    """

    def __init__(self, lapses_at: int = 10**6, silent: Collection[int] = ()) -> None:
        self.heard: list[Message] = []
        self._lapses_at = lapses_at
        self._silent = silent

    async def hear(self, message: Message) -> Message | None:
        self.heard.append(message)
        if len(self.heard) - 1 in self._silent:
            return None
        branch_id, lease = BranchId("b"), 1
        if len(self.heard) > self._lapses_at:
            return LeaseLapsed(branch_id=branch_id, lease=lease, reason="the lease is over")
        return Renewed(branch_id=branch_id, lease=lease)

    def nodes(self) -> list[NodeReached]:
        """The nodes it was told of."""
        return [message for message in self.heard if isinstance(message, NodeReached)]


class World:
    """The actors around a replay actor; a test swaps what it wants otherwise."""

    def __init__(
        self,
        desktop: FakeDesktop | None = None,
        *,
        screen: FakeScreen | None = None,
        search: FakeSearch | None = None,
        verifier: Actor[Message] | None = None,
        task: Task | None = TASK,
    ) -> None:
        self.screen = screen or note_screen()
        self.desktop = desktop or FakeDesktop(self.screen)
        self.search = search or FakeSearch()
        self.post = Post(RunId("test"))
        self._actors: dict[str, Actor[Message]] = {
            "desktop/d-0": self.desktop,
            "verifier/d-0": verifier or FakeVerifier(self.desktop),  # type: ignore[dict-item]
            "proposer": FakeProposer(self.screen),  # type: ignore[dict-item]
            f"search/{TASK.id}": self.search,
            "scheduler": FakeScheduler(task),  # type: ignore[dict-item]
        }

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Ref]:
        """Run all actors; gives the replay actor."""
        refs = functools.partial(self.post.ref, sender=REPLAY)
        replay = ReplayActor(
            refs(ActorName("desktop/d-0")),
            refs(ActorName("verifier/d-0")),
            refs,
            scheduler=ActorName("scheduler"),
            desktop_id=DESKTOP,
            deadlines=Deadlines(reset_s=5, act_s=3, propose_s=4, verify_s=6),
        )
        actors = {**self._actors, REPLAY: cast(Actor[Message], replay)}
        children = [
            ChildSpec(name=name, start=self._start(name, actor)) for name, actor in actors.items()
        ]
        tree = Supervisor("world", children)
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            yield self.post.ref(REPLAY, sender=TEST)
            tree.stop()

    def _start(self, name: str, actor: Actor[Message]) -> Start:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(actor, ActorName(name), self.post, task_status=task_status)

        return start

    async def drive(self, assign: Assign) -> LeafReached:
        """Have one branch driven."""
        with trio.fail_after(60):
            async with self.open() as replay:
                answer = await replay.ask(Drive(assign=assign), timeout_s=50)
        assert isinstance(answer, LeafReached)
        return answer


def assign(kind: BranchKind = "explore", **more: object) -> Assign:
    """A branch of the task."""
    fields: dict[str, object] = {
        "branch_id": BranchId("b"),
        "task_id": TASK.id,
        "task_sha256": TASK.sha256,
        "kind": kind,
        "lease": 7,
        "lease_ms": 3000,
        "proposer": ActorName("proposer"),
        "steps_max": 6,
        **more,
    }
    return Assign(**fields)  # type: ignore[arg-type]  # checked by the codec in other tests


def prefix(screen: FakeScreen, *actions: object) -> tuple[PrefixStep, ...]:
    """The steps that these actions are, with the states they lead to."""
    state, steps = START, []
    for action in actions:
        state = screen.after(state, action)  # type: ignore[arg-type]  # actions, all of them
        steps.append(
            PrefixStep(
                action=action,  # type: ignore[arg-type]
                fingerprint=fingerprint(action),  # type: ignore[arg-type]
                reached=screen.observe(state).signature,
                text="as recorded",
                log_prob=-0.25,
            )
        )
    return tuple(steps)
