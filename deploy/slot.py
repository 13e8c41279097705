"""One slot of the desktop role: a desktop, its verifier, its replay and its worker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.replay.actor import ReplayActor
from envs_node.actors.replay.asking import Deadlines
from envs_node.actors.replay.work import Slot, work
from envs_node.deploy.admitted import AdmittedTree, Room
from envs_node.deploy.health import Health
from envs_node.messages.base import ActorName, DesktopId
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec, Start
from envs_node.supervisor.intensity import Intensity

SLOT_INTENSITY = Intensity(burst=10, window_s=60.0)

_KINDS = ("desktop", "verifier", "replay", "work")

_log = structlog.get_logger(__name__)


class DesktopSlot:
    """Assembles the tree of one desktop.

    Args:
        make_desktop: makes the actor that owns the desktop.
        make_verifier: makes the actor that judges it.
        health: where the slot says how its desktop is.
        destroy_desktop: kills a desktop without waiting, for an actor that hangs on it.
        is_closing: whether the slot is about to be stopped: then it draws no work, and what its
            actors crash over is no fault of theirs.
        chance: jitter of the back-off of its supervisor.
        room: lets it run; it always may unless given.
        pid: the first process of its desktop, or 0 while there is none.
        deadlines: how long whoever drives a branch waits for its desktop.
    """

    def __init__(
        self,
        post: Post,
        desktop_id: DesktopId,
        *,
        make_desktop: Callable[[DesktopId], Actor[Any]],
        make_verifier: Callable[[DesktopId], Actor[Any]],
        health: Health | None = None,
        destroy_desktop: Callable[[DesktopId], None] = lambda _: None,
        is_closing: Callable[[], bool] = lambda: False,
        chance: Random | None = None,
        room: Room | None = None,
        pid: Callable[[], int] = int,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._post = post
        self._id = desktop_id
        self._make_desktop = make_desktop
        self._make_verifier = make_verifier
        self._health = health or Health()
        self._destroy_desktop = destroy_desktop
        self._is_closing = is_closing
        self._chance = chance
        self._room = room
        self._pid = pid
        self._deadlines = deadlines
        self._names = {kind: ActorName(f"{kind}/{desktop_id}") for kind in _KINDS}

    def child(self) -> ChildSpec:
        """The slot; when its desktop dies, all that leans on it is started anew."""
        makes: dict[str, Callable[[], Actor[Any]]] = {
            "desktop": functools.partial(self._make_desktop, self._id),
            "verifier": functools.partial(self._make_verifier, self._id),
            "replay": self._replay,
        }
        children = [
            ChildSpec(
                name=kind,
                start=self._start(self._names[kind], make),
                is_preempted=lambda _: self._is_closing(),
                destroy=functools.partial(self._destroy, self._names[kind]),
            )
            for kind, make in makes.items()
        ]
        children.append(ChildSpec(name="work", start=self._work))
        tree = AdmittedTree(
            self._id,
            children,
            strategy="rest_for_one",
            intensity=SLOT_INTENSITY,
            chance=self._chance,
            publish=self._publish,
        )
        tree.room, tree.pid = self._room, self._pid
        self._health.desktop(self._id, "starting")
        return ChildSpec(name=self._id, start=tree.run, shutdown_s=10.0)

    def _start(self, name: ActorName, make: Callable[[], Actor[Any]]) -> Start:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            await run_actor(make(), name, self._post, task_status=task_status)

        return start

    def _destroy(self, name: ActorName) -> None:
        self._destroy_desktop(self._id)
        self._post.evict(name)

    def _replay(self) -> ReplayActor:
        me = self._names["replay"]
        return ReplayActor(
            self._post.ref(self._names["desktop"], sender=me),
            self._post.ref(self._names["verifier"], sender=me),
            functools.partial(self._post.ref, sender=me),
            scheduler=ActorName("scheduler"),
            desktop_id=self._id,
            deadlines=self._deadlines,
        )

    async def _work(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        if self._is_closing():
            task_status.started()
            await trio.sleep_forever()
        me = self._names["work"]
        refs = functools.partial(self._post.ref, sender=me)
        slot = Slot(
            worker=me,
            desktop_id=self._id,
            replay=self._health.watched(refs(self._names["replay"]), self._id),
            desktop=refs(self._names["desktop"]),
            scheduler=refs(ActorName("scheduler")),
            ledger=refs(ActorName("ledger")),
            refs=refs,
        )
        self._health.desktop(self._id, "idle")
        task_status.started()
        await work(slot)

    def _publish(self, crashed: Crashed) -> None:
        tell_crash(crashed)
        self._health.crashed(crashed, self._id)


def tell_crash(crashed: Crashed) -> None:
    """Log what a supervisor publishes."""
    said = {"child": crashed.child, "error": crashed.error, "restarts": crashed.restarts}
    match crashed.cause:
        case "abandoned":
            _log.error("child.abandoned", **said)
        case "preempted":
            _log.warning("child.preempted", **said)
        case "fault":
            _log.error("child.crashed", **said, traceback=crashed.traceback)
