"""A head with a real ledger, journal, searches and replay actors, and desktops that are fakes."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.post import Post
from envs_node.actors.replay.actor import ReplayActor
from envs_node.actors.replay.work import Slot, work
from envs_node.deploy.conduct import run_request
from envs_node.deploy.config import Config
from envs_node.deploy.head import HeadRuns
from envs_node.deploy.parts import PROPOSER, HeadParts
from envs_node.deploy.run_folder import RunFolder
from envs_node.messages.base import ActorName, DesktopId, Message, RunId
from envs_node.messages.desktop import Act
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress, ProgressWanted
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.tree import Supervisor
from tests.fakes import FakeDesktop, FakeProposer, FakeScreen, FakeVerifier, fake_task, note_screen

SETTINGS = SearchSettings(leaves_task_max=4, successes_task_max=2, steps_max=5, lease_ms=20_000)
CONFIG = Config(search=SETTINGS)
TASKS = (fake_task("note-000"), fake_task("note-001"))


class FakeNode:
    """A node of role `all` in this process, but for what its desktops are."""

    def __init__(
        self,
        root: Path,
        *,
        desktops: int = 2,
        config: Config = CONFIG,
        parts: HeadParts | None = None,
        clock_ns: Callable[[], int] | None = None,
        screen: FakeScreen | None = None,
        trouble: Callable[[Act], Message | None] = lambda act: None,
    ) -> None:
        self._screen = screen or note_screen()
        self._trouble = trouble
        self.root = root
        self.post = Post(RunId("test"), clock_ns=clock_ns)
        self.tree = Supervisor("node", [])
        self._desktops = desktops
        self._config = config
        self.runs = HeadRuns(
            self.post,
            self.tree,
            root=root,
            config=config,
            policy="fake table",
            checker="none 0",
            extra=self._children,
            parts=parts,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the node open."""
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                await nursery.start(self.tree.run)
                yield
                self.tree.stop()

    async def start(self, run: str, *, is_resumed: bool = False) -> None:
        """Start a run over the tasks."""
        await self.runs.start(run_request(run, self._config, TASKS, is_resumed=is_resumed))

    async def watch(self, is_enough: Callable[[Progress], bool]) -> Progress:
        """Look on until there is enough."""
        scheduler = self.ref("scheduler", "client")
        while True:
            progress = await scheduler.ask(ProgressWanted(), timeout_s=20)
            assert isinstance(progress, Progress)
            if is_enough(progress):
                return progress
            await trio.sleep(0.02)

    async def finish(self, run: str) -> tuple[Progress, RunFolder]:
        """Wait for the end of a run, and stop it."""
        progress = await self.watch(lambda progress: progress.is_over)
        await self.runs.stop(run)
        return progress, RunFolder.open(self.root / run)

    def ref(self, to: str, sender: str) -> Ref:
        """A reference, by names."""
        return self.post.ref(ActorName(to), sender=ActorName(sender))

    def _children(self) -> list[ChildSpec]:
        children = [self._actor(PROPOSER, FakeProposer(self._screen))]  # type: ignore[arg-type]
        for number in range(self._desktops):
            desktop_id = DesktopId(f"fake-{number}")
            desktop = FakeDesktop(self._screen, trouble=self._trouble)
            actors = {
                "desktop": desktop,
                "verifier": FakeVerifier(desktop),
                "replay": self._replay(desktop_id),
            }
            children += [
                self._actor(f"{kind}/{desktop_id}", cast(Actor[Message], actor))
                for kind, actor in actors.items()
            ]
            children.append(ChildSpec(name=f"work/{desktop_id}", start=self._work(desktop_id)))
        return children

    def _actor(self, name: str, actor: Actor[Message]) -> ChildSpec:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(actor, ActorName(name), self.post, task_status=task_status)

        return ChildSpec(name=name, start=start)

    def _replay(self, desktop_id: DesktopId) -> ReplayActor:
        me = f"replay/{desktop_id}"
        return ReplayActor(
            self.ref(f"desktop/{desktop_id}", me),
            self.ref(f"verifier/{desktop_id}", me),
            functools.partial(self.post.ref, sender=ActorName(me)),
            scheduler=ActorName("scheduler"),
            desktop_id=desktop_id,
        )

    def _work(self, desktop_id: DesktopId) -> Start:
        me = f"work/{desktop_id}"
        slot = Slot(
            worker=ActorName(me),
            desktop_id=desktop_id,
            replay=self.ref(f"replay/{desktop_id}", me),
            desktop=self.ref(f"desktop/{desktop_id}", me),
            scheduler=self.ref("scheduler", me),
            ledger=self.ref("ledger", me),
            refs=functools.partial(self.post.ref, sender=ActorName(me)),
        )

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            await work(slot)

        return start
