"""A simulated node: killed, frozen and started again like a machine's process under systemd."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import trio

from envs_node.actors.post import Post
from envs_node.deploy.sim.network import Network, Port, SimLinks
from envs_node.messages.base import EnvsError, RunId
from envs_node.messages.journal import JournalWriter
from envs_node.supervisor.tree import Supervisor

EPOCH_NS = 1_700_000_000 * 10**9
"""Wall clock at the start of every simulation."""


class Life:
    """One life of a node, from its start to its death: its post, its supervisor, its files."""

    def __init__(self, node: SimNode, number: int, network: Network, service_s: float) -> None:
        self.node = node
        self.number = number
        self.stamp = f"{node.name}.{number}"
        self.post = Post(RunId(node.name), clock_ns=node.clock_ns, stamp=self.stamp)
        self.port = Port(node.name, self.post.deliver, service_s=service_s)
        self.links = SimLinks(network, self.port)
        self.tree = Supervisor("node", [], chance=self.chance("node"))
        self.scope = trio.CancelScope()
        self._writers: list[JournalWriter] = []

    def chance(self, purpose: str) -> Random:
        """A source of chance for one purpose, that of this seed, node and life."""
        return Random(f"{self.node.seed}/{self.node.name}/{self.number}/{purpose}")

    def open_journal(self, folder: Path) -> JournalWriter:
        """Open a journal that is closed when this life ends."""
        writer = JournalWriter(folder)
        self._writers.append(writer)
        return writer

    def close_files(self) -> None:
        """What the operating system does for a process that has died."""
        for writer in self._writers:
            writer.close()


class SimNode:
    """A node by name, over all its lives.

    Args:
        live: runs one life; it is cancelled when the node is killed, and returns when its tree
            is told to stop.
        service_s: how long the node takes over each message that arrives.
        start_s: when its first life begins.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        live: Callable[[Life], Awaitable[None]],
        *,
        seed: int,
        service_s: float = 0.0,
        start_s: float = 0.0,
    ) -> None:
        self.name = name
        self.seed = seed
        self.life: Life | None = None
        """The life that is on; None while the node is down."""
        self.lives = 0
        self.jump_ns = 0
        self._network = network
        self._live = live
        self._service_s = service_s
        self._start_s = start_s
        self._restart_s = 0.0
        self._is_stopped = False
        self.queued_s: list[float] = []
        """How long messages queued, over all lives."""
        self.exits: list[str] = []
        """Errors that ended a life."""
        self.leaked: list[str] = []
        """Of each life that was stopped in order: what it left behind."""

    def clock_ns(self) -> int:
        """The wall clock of this node."""
        return EPOCH_NS + self.jump_ns + round(trio.current_time() * 1e9)

    async def keep(self) -> None:
        """Live, die, wait, and live again, until stopped."""
        await trio.sleep(self._start_s)
        while not self._is_stopped:
            life = Life(self, self.lives, self._network, self._service_s)
            self.lives += 1
            self._network.open(life.port)
            self.life = life
            try:
                with life.scope:
                    await self._live(life)
            except* EnvsError as group:  # the process ends with it, and is started again
                self.exits.append(repr(group.exceptions))
            self.life = None
            self.queued_s += life.port.queued_s
            self._network.close(life.port)
            life.close_files()
            if self._is_stopped and not life.scope.cancelled_caught:
                self._look_for_leaks(life)
            elif not self._is_stopped:
                await trio.sleep(self._restart_s)

    def kill(self, restart_s: float) -> bool:
        """End this life at once, as `kill -9` does, and start another after a while."""
        life = self.life
        if life is None or self._is_stopped or life.port.is_dead:
            return False
        self._restart_s = restart_s
        self._network.close(life.port)
        life.close_files()
        life.scope.cancel()
        return True

    def freeze(self, for_s: float) -> bool:
        """Hold all its mail for a while, both ways."""
        life = self.life
        if life is None or life.port.is_dead:
            return False
        until_s = trio.current_time() + for_s
        life.port.frozen_until_s = max(life.port.frozen_until_s, until_s)
        return True

    def jump(self, seconds: float) -> bool:
        """Set its wall clock, forth or back."""
        self.jump_ns += round(seconds * 1e9)
        return True

    def stop(self) -> None:
        """Let this life end in order, and begin no other."""
        self._is_stopped = True
        if self.life is not None and not self.life.port.is_dead:
            self.life.tree.stop()

    def leaks(self) -> list[str]:
        """What was left behind after the stop."""
        if self.life is not None:
            return [*self.leaked, f"{self.name} did not stop in time"]
        return self.leaked

    def _look_for_leaks(self, life: Life) -> None:
        if up := life.tree.statistics()["up"]:
            self.leaked.append(f"{self.name} has {up} children after its stop")
        if names := life.post.names():
            self.leaked.append(f"{self.name} still holds {', '.join(names)}")
        if life.port.asked:
            self.leaked.append(f"{life.port.asked} requests of {self.name} still wait")
