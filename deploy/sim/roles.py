"""What runs on a simulated node of each role: the trees of real heads, policies and slots."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import trio

from envs_node import __version__
from envs_node.actors.base import Actor
from envs_node.actors.blocking import RunBlocking
from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.head.actor import HeadActor
from envs_node.actors.ledger.actor import Store
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import NngLinks
from envs_node.actors.proposer.actor import ProposerActor
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.deploy.config import Config
from envs_node.deploy.head import HeadRuns
from envs_node.deploy.health import Health
from envs_node.deploy.journals import open_recorder
from envs_node.deploy.membership import HEAD, keep_joined, keep_proposer
from envs_node.deploy.node import route_to_head
from envs_node.deploy.parts import PROPOSER, HeadParts
from envs_node.deploy.sim.machine import SimChecker, SimDesktop, Toil
from envs_node.deploy.sim.node import Life
from envs_node.deploy.sim.world import World, WorldPolicy
from envs_node.deploy.slot import SLOT_INTENSITY, DesktopSlot
from envs_node.messages.base import ActorName, DesktopId
from envs_node.messages.lifecycle import Join, Role, SearchSettings
from envs_node.messages.propose import Proposal, State
from envs_node.messages.tasks import Task
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

HEAD_NODE = "head"


class HeadRole:
    """A head: the real runs, ledger, scheduler and searches, with a disk that takes its time."""

    def __init__(
        self,
        root: Path,
        config: Config,
        *,
        open_store: Callable[[Life, Toil, Path], Store],
        make_search: Callable[[Task, SearchSettings], TaskSearch],
    ) -> None:
        self._root = root
        self._config = config
        self._open_store = open_store
        self._make_search = make_search

    async def live(self, life: Life) -> None:
        """Run one life of the head."""
        toil = Toil()
        parts = HeadParts(
            run_blocking=toil.run,
            open_journal=life.open_journal,
            open_store=functools.partial(self._open_store, life, toil),
            make_search=self._make_search,
            chance=functools.partial(life.chance, "run"),
        )
        runs = HeadRuns(
            life.post,
            life.tree,
            root=self._root,
            config=self._config,
            policy="world",
            checker="sim 1",
            parts=parts,
        )
        actor = HeadActor(runs, node=life.node.name, version=__version__)
        await _run_tree(life, _child(life, HEAD, lambda: actor))


class DesktopRole:
    """A node of desktops: real slots, around desktops of a world."""

    def __init__(self, world: World, count: int, first: int, folder: Path | None) -> None:
        """Take the number of its first desktop, and where to keep a journal, if it keeps one."""
        self._world = world
        self._count = count
        self._first = first
        self._folder = folder
        self.desktops: dict[DesktopId, SimDesktop] = {}
        self.checkers: dict[DesktopId, SimChecker] = {}

    async def live(self, life: Life) -> None:
        """Run one life of the node."""
        post = life.post
        if self._folder is not None:
            post.recorder = open_recorder(life.open_journal(self._folder / life.node.name))
        slots = [self._slot(life, number).child() for number in range(self._count)]
        tree = Supervisor("slots", slots, intensity=SLOT_INTENSITY, chance=life.chance("slots"))
        await _live_beside_head(life, "desktop", ChildSpec(name="slots", start=tree.run))

    def _slot(self, life: Life, number: int) -> DesktopSlot:
        return DesktopSlot(
            life.post,
            DesktopId(f"{life.node.name}-{number}"),
            make_desktop=functools.partial(self._desktop, self._first + number),
            make_verifier=self._verifier,
            chance=life.chance(f"slot {number}"),
        )

    def _desktop(self, number: int, desktop_id: DesktopId) -> DesktopActor:
        toil = Toil()
        before = self.desktops.get(desktop_id)
        desktop = SimDesktop(self._world, desktop_id, number, toil)
        if before is not None:  # counted on, and no episode is taken for one before
            desktop.performed, desktop.resets = before.performed, before.resets
        self.desktops[desktop_id] = desktop
        return DesktopActor(desktop_id, desktop, run_blocking=toil.run)

    def _verifier(self, desktop_id: DesktopId) -> VerifierActor:
        toil = Toil()
        find = functools.partial(self.desktops.get, desktop_id)
        checker = self.checkers[desktop_id] = SimChecker(self._world, find, toil)
        return VerifierActor(checker, run_blocking=toil.run)


class PolicyRole:
    """A node with one proposer."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def live(self, life: Life) -> None:
        """Run one life of the node."""
        toil = Toil()
        policy = _TimedPolicy(self._world, toil)
        run_blocking: RunBlocking = toil.run
        make = functools.partial(ProposerActor, lambda: policy, run_blocking=run_blocking)
        await _live_beside_head(life, "policy", _child(life, PROPOSER, make))


class _TimedPolicy(WorldPolicy):
    """The world's policy, and the time its proposals take."""

    def __init__(self, world: World, toil: Toil) -> None:
        super().__init__(world)
        self._toil = toil

    def propose(
        self, state: State, *, samples: int, temperature: float, seed: int, greedy: bool = False
    ) -> tuple[Proposal, ...]:
        """See `WorldPolicy`."""
        self._toil.spend(self._world.takes_s("propose", self._world.state_of(state.observation)))
        return super().propose(
            state, samples=samples, temperature=temperature, seed=seed, greedy=greedy
        )


async def _live_beside_head(life: Life, role: Role, child: ChildSpec) -> None:
    """Join the head, and run a child until the tree is told to stop."""
    post, name = life.post, life.node.name
    links = cast(NngLinks, life.links)
    route_to_head(post, links, HEAD_NODE)
    url, health = name if role == "policy" else "", Health()

    def introduce() -> Join:
        return Join(
            node=name,
            instance=life.stamp,
            role=role,
            url=url,
            actors=post.names(),
            version=__version__,
            report=health.report(),
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_joined, post, introduce, health)
        if role == "desktop":
            nursery.start_soon(keep_proposer, post, links, name, health)
        await _run_tree(life, child)
        nursery.cancel_scope.cancel()


async def _run_tree(life: Life, child: ChildSpec) -> None:
    """Run the life's tree with this child until it is told to stop."""
    async with trio.open_nursery() as nursery:
        await nursery.start(life.tree.run)
        await life.tree.start_child(child)


def _child(life: Life, name: ActorName, make: Callable[[], Actor[Any]]) -> ChildSpec:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        await run_actor(make(), name, life.post, task_status=task_status)

    return ChildSpec(name=name, start=start)
