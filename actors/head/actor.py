"""Lets nodes in, tells them of each other, starts and stops runs, and says how all stands.

Owns      the roll of nodes that joined; through `Runs`, the run that is on.
Hears     Join, Leave, Resolve, StartRun, StopRun, StatusWanted.
Says      Joined, JoinFailed, Left, Resolved, RunStarted, RunRefused, RunStopped, Status.
On crash  forgets the nodes; they join again within two seconds. The run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol, assert_never

import msgspec
import structlog

from envs_node.actors.base import Actor
from envs_node.actors.head.roll import Roll
from envs_node.messages.base import ActorName, EnvsError, Message
from envs_node.messages.lifecycle import (
    Join,
    Joined,
    JoinFailed,
    Leave,
    Left,
    Resolve,
    Resolved,
    Role,
    RunRefused,
    RunStarted,
    RunStopped,
    StartRun,
    StopRun,
)
from envs_node.messages.search import Progress
from envs_node.messages.status import NodeReport, NodeStatus, Status, StatusWanted

_log = structlog.get_logger(__name__)

HeadHeard = Join | Leave | Resolve | StartRun | StopRun | StatusWanted


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the run that is on stands."""

    run: str = ""
    """Empty for none."""
    progress: Progress | None = None
    """None when nobody answers for it."""
    paused: str = ""


class Runs(Protocol):
    """Starts and stops the actors of a run."""

    async def start(self, request: StartRun) -> None:
        """Start a run. Raises an `EnvsError` that says why it cannot."""

    async def stop(self, run: str) -> None:
        """Stop a run and write its summary; nothing happens when it is not on."""

    async def standing(self) -> Standing:
        """How it stands, its leases included. Answers soon, whatever happens."""


class HeadActor(Actor[HeadHeard]):
    """The one actor whose name every node knows.

    Args:
        names: the actors of this very node.
        report: how this very node is.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        node: str,
        version: str,
        role: Role = "head",
        names: Callable[[], tuple[ActorName, ...]] = tuple,
        report: Callable[[], NodeReport] = NodeReport,
    ) -> None:
        self._runs = runs
        self._node = node
        self._version = version
        self._role = role
        self._names = names
        self._report = report
        self._roll = Roll()

    async def hear(self, message: HeadHeard) -> Message | None:
        """Dispatch one message."""
        now_ns = self.envelope.time_ns
        match message:
            case Join():
                return self._join(message, now_ns)
            case Leave(node=node, instance=instance):
                if self._roll.strike(node, instance):
                    _log.info("node.left", node=node)
                return Left(node=node)
            case Resolve(prefix=prefix):
                return Resolved(places=self._roll.places(prefix, now_ns))
            case StartRun():
                return await self._start(message, now_ns)
            case StopRun(run=run):
                await self._runs.stop(run)
                self._roll.forget_dead(now_ns)
                return RunStopped(run=run)
            case StatusWanted():
                standing = await self._runs.standing()
                if standing.progress is not None and standing.progress.is_over:
                    self._roll.forget_dead(now_ns)
                return self._status(standing, now_ns)
        assert_never(message)

    def statistics(self) -> dict[str, int | float]:
        """How many nodes are on the roll."""
        return {"nodes": len(self._roll)}

    def _join(self, node: Join, now_ns: int) -> Joined | JoinFailed:
        if node.version != self._version:
            reason = f"{node.node} is version {node.version}, the head {self._version}"
            _log.warning("node.refused", node=node.node, reason=reason)
            return JoinFailed(reason=f"{reason}: install the same version on both")
        taken = self._roll.take(node, now_ns)
        if isinstance(taken, JoinFailed):
            _log.warning("node.refused", node=node.node, reason=taken.reason)
            return taken
        if taken:
            _log.info("node.joined", node=node.node, role=node.role, url=node.url)
        return Joined(head=self._node, version=self._version)

    async def _start(self, request: StartRun, now_ns: int) -> RunStarted | RunRefused:
        try:
            await self._runs.start(request)
        except EnvsError as error:
            return RunRefused(reason=str(error))
        self._roll.forget_dead(now_ns)
        return RunStarted(run=request.run)

    def _status(self, standing: Standing, now_ns: int) -> Status:
        own = NodeStatus(
            node=self._node,
            role=self._role,
            url="",
            heard_ms=0,
            is_alive=True,
            report=self._report(),
        )
        nodes = (own, *self._roll.statuses(now_ns))
        progress = standing.progress
        tasks = progress.tasks if progress is not None else ()
        return Status(
            head=self._node,
            version=self._version,
            run=standing.run,
            nodes=nodes,
            leases=progress.leases if progress is not None else (),
            tasks=tuple(sorted(Counter(task.state for task in tasks).items())),
            reassigned=sum(task.reassigned for task in tasks),
            lost=sum(task.lost for task in tasks),
            refused=sum(task.refused for task in tasks),
            paused=self._why_paused(standing, nodes, now_ns),
        )

    def _why_paused(self, standing: Standing, nodes: tuple[NodeStatus, ...], now_ns: int) -> str:
        progress = standing.progress
        if standing.paused or not standing.run or (progress is not None and progress.is_over):
            return standing.paused
        if progress is None:
            return "the scheduler of the run does not answer"
        if "proposer" not in self._names() and not self._roll.places("proposer", now_ns):
            return "no policy answers: start one with `envs-node start --role policy --head URL`"
        if not any(node.is_alive and node.report.desktops for node in nodes):
            return (
                "no desktop is there: start some with `envs-node start --role desktop --head URL`"
            )
        return progress.reason
