"""Lets nodes in, tells them of each other, and starts and stops runs.

Owns      the list of nodes that joined; through `Runs`, the run that is on.
Hears     Join, Resolve, StartRun, StopRun.
Says      Joined, JoinFailed, Resolved, RunStarted, RunRefused, RunStopped.
On crash  forgets the nodes; they join again when they are next refused. The run goes on.
"""

from __future__ import annotations

from typing import Protocol, assert_never

import structlog

from envs_node.actors.base import Actor
from envs_node.messages.base import EnvsError, Message
from envs_node.messages.lifecycle import (
    Join,
    Joined,
    JoinFailed,
    Place,
    Resolve,
    Resolved,
    RunRefused,
    RunStarted,
    RunStopped,
    StartRun,
    StopRun,
)

_ALIVE_NS = 10 * 10**9
"""A node that did not join again for so long is not told of."""

_log = structlog.get_logger(__name__)

HeadHeard = Join | Resolve | StartRun | StopRun


class Runs(Protocol):
    """Starts and stops the actors of a run."""

    async def start(self, request: StartRun) -> None:
        """Start a run. Raises an `EnvsError` that says why it cannot."""

    async def stop(self, run: str) -> None:
        """Stop a run and write its summary; nothing happens when it is not on."""


class HeadActor(Actor[HeadHeard]):
    """The one actor whose name every node knows."""

    def __init__(self, runs: Runs, *, node: str, version: str) -> None:
        self._runs = runs
        self._node = node
        self._version = version
        self._nodes: dict[str, tuple[Join, int]] = {}
        """Who joined, and when last, in ns."""

    async def hear(self, message: HeadHeard) -> Message | None:
        """Dispatch one message."""
        match message:
            case Join():
                return self._join(message)
            case Resolve(prefix=prefix):
                return Resolved(places=self._places(prefix))
            case StartRun():
                return await self._start(message)
            case StopRun(run=run):
                await self._runs.stop(run)
                return RunStopped(run=run)
        assert_never(message)

    def statistics(self) -> dict[str, int | float]:
        """How many nodes joined."""
        return {"nodes": len(self._nodes)}

    def _join(self, node: Join) -> Joined | JoinFailed:
        if node.version != self._version:
            reason = f"{node.node} is version {node.version}, the head {self._version}"
            _log.warning("node.refused", node=node.node, reason=reason)
            return JoinFailed(reason=f"{reason}: install the same version on both")
        is_new = node.node not in self._nodes
        self._nodes[node.node] = (node, self.envelope.time_ns)
        if is_new:
            _log.info("node.joined", node=node.node, role=node.role, url=node.url)
        return Joined(head=self._node, version=self._version)

    def _places(self, prefix: str) -> tuple[Place, ...]:
        return tuple(
            Place(actor, node.url)
            for node, joined_ns in self._nodes.values()
            if node.url and joined_ns + _ALIVE_NS > self.envelope.time_ns
            for actor in node.actors
            if actor.startswith(prefix)
        )

    async def _start(self, request: StartRun) -> RunStarted | RunRefused:
        try:
            await self._runs.start(request)
        except EnvsError as error:
            return RunRefused(reason=str(error))
        return RunStarted(run=request.run)
