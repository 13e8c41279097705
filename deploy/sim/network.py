"""The network between simulated nodes: an agenda of what arrives when, and links that may fail."""

from __future__ import annotations

import heapq
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec
import trio

from envs_node.actors.memory import Slot
from envs_node.actors.transport import Deliver, Reply
from envs_node.messages.base import Envelope, Message


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message may meet on its way; rates are shares of all messages."""

    delay_s: float = 0.001
    """Least time under way."""
    jitter_s: float = 0.001
    """At most so much more, drawn for each: senders overtake each other, never themselves."""
    loss: float = 0.0
    doubling: float = 0.0
    lateness: float = 0.0
    """Of messages that are late by up to `late_s`."""
    late_s: float = 5.0


def next_tick_s(time_s: float) -> float:
    """The millisecond that begins then or after: the simulation's time goes in such steps.

    What thousands of desktops do at nearly the same time is then done in one round of the loop.
    """
    return math.ceil(time_s * 1000 - 1e-6) / 1000


class Agenda:
    """What is to happen when, in virtual time. One task runs it all, in order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._nap = trio.CancelScope()

    def at(self, time_s: float, do: Callable[[], None]) -> None:
        """Do something at a time; what is due at one time is done in the order it was said."""
        time_s = next_tick_s(time_s)
        heapq.heappush(self._heap, (time_s, next(self._count), do))
        if time_s < self._nap.deadline:
            self._nap.deadline = time_s

    async def run(self) -> None:
        """Do all that is due, until cancelled."""
        while True:
            now_s = trio.current_time()
            while self._heap and self._heap[0][0] <= now_s:
                heapq.heappop(self._heap)[2]()
            next_s = self._heap[0][0] if self._heap else float("inf")
            self._nap = trio.CancelScope(deadline=next_s)
            with self._nap:
                await trio.sleep_forever()


class Port:
    """One life of a node as the network sees it: how mail reaches it, and what befell it."""

    def __init__(self, node: str, deliver: Deliver, *, service_s: float = 0.0) -> None:
        self.node = node
        self.deliver = deliver
        self.service_s = service_s
        """How long it takes over each message that arrives; they queue."""
        self.is_dead = False
        self.frozen_until_s = 0.0
        self.free_at_s = 0.0
        self.queued_s: list[float] = []
        """How long messages queued, of every tenth."""
        self.asked = 0
        """Requests of this node that wait for an answer now."""


class Network:
    """Carries envelopes between the nodes of a simulation.

    Args:
        tap: sees each envelope as it arrives somewhere, with the node it arrives at.
    """

    def __init__(
        self,
        agenda: Agenda,
        line: Line,
        chance: Random,
        tap: Callable[[str, Envelope[Message]], None],
    ) -> None:
        self._agenda = agenda
        self._chance = chance
        self._tap = tap
        self._ports: dict[str, Port] = {}
        self._last_s: dict[tuple[str, str], float] = {}
        self.line = line
        self.digest = 0
        """Of all that arrived, where and when: equal digests, equal runs."""
        self.counts = dict.fromkeys(("carried", "lost", "doubled", "late"), 0)
        self.kinds: Counter[str] = Counter()
        """Messages that arrived, by the name of their class."""

    def open(self, port: Port) -> None:
        """A node is there."""
        self._ports[port.node] = port

    def close(self, port: Port) -> None:
        """A node has died: it hears nothing and says nothing any more."""
        port.is_dead = True
        if self._ports.get(port.node) is port:
            del self._ports[port.node]

    def ask(self, source: Port, node: str, envelope: Envelope[Message], answer: Reply) -> None:
        """Carry a request there, and its answer back."""

        def reply(said: Envelope[Message] | None) -> None:
            if not there.is_dead:
                self._carry(there, source, said or envelope, lambda: answer(said))

        def arrive() -> None:
            there.deliver(envelope, reply)

        target = self._ports.get(node)
        if target is not None:
            there = target
            self._carry(source, there, envelope, arrive)

    def tell(self, source: Port, node: str, envelope: Envelope[Message]) -> None:
        """Carry a message there."""
        there = self._ports.get(node)
        if there is not None:
            self._carry(source, there, envelope, lambda: there.deliver(envelope, None))

    def _carry(
        self, source: Port, there: Port, envelope: Envelope[Message], arrive: Callable[[], None]
    ) -> None:
        """Draw what befalls a message, and put its arrival on the agenda."""
        if source.is_dead:
            return
        line, chance, counts = self.line, self._chance, self.counts
        counts["carried"] += 1
        if line.loss and chance.random() < line.loss:
            counts["lost"] += 1
            return
        copies = 1
        if line.doubling and chance.random() < line.doubling:
            counts["doubled"] += 1
            copies = 2
        for _ in range(copies):
            delay_s = line.delay_s + line.jitter_s * chance.random()
            if line.lateness and chance.random() < line.lateness:
                counts["late"] += 1
                delay_s += line.late_s * chance.random()
            left_s = max(trio.current_time(), source.frozen_until_s)
            key = (envelope.sender, envelope.to)
            at_s = max(left_s + delay_s, self._last_s.get(key, 0.0))
            self._last_s[key] = at_s
            self._agenda.at(at_s, lambda: self._arrive(there, envelope, arrive))

    def _arrive(self, there: Port, envelope: Envelope[Message], arrive: Callable[[], None]) -> None:
        now_s = trio.current_time()
        if there.is_dead:
            return
        if there.frozen_until_s > now_s:
            self._agenda.at(there.frozen_until_s, lambda: self._arrive(there, envelope, arrive))
            return
        start_s = max(now_s, there.free_at_s)
        there.free_at_s = start_s + there.service_s
        if self.counts["carried"] % 10 == 0:
            there.queued_s.append(start_s - now_s)
        if start_s > now_s:
            self._agenda.at(start_s, lambda: self._hand_over(there, envelope, arrive))
        else:
            self._hand_over(there, envelope, arrive)

    def _hand_over(
        self, there: Port, envelope: Envelope[Message], arrive: Callable[[], None]
    ) -> None:
        if there.is_dead:
            return
        words = f"{trio.current_time():.6f} {there.node} {envelope.id}"
        self.digest = zlib.crc32(words.encode(), self.digest)
        self.kinds[type(envelope.message).__name__] += 1
        self._tap(there.node, envelope)
        arrive()


class SimLink:
    """A `Transport` from one life of a node to whatever lives at an address."""

    def __init__(self, network: Network, port: Port, node: str) -> None:
        self._network = network
        self._port = port
        self._node = node

    async def ask(self, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """Carry a request and wait for its answer, for ever if there is none."""
        slot = Slot()
        self._port.asked += 1
        try:
            self._network.ask(self._port, self._node, envelope, slot.put)
            return await slot.get()
        finally:
            self._port.asked -= 1

    def tell(self, envelope: Envelope[Message]) -> None:
        """Carry without waiting."""
        self._network.tell(self._port, self._node, envelope)


class SimLinks:
    """The links of one life of a node, by address: the name of the node there."""

    def __init__(self, network: Network, port: Port) -> None:
        self._network = network
        self._port = port

    def to(self, url: str) -> SimLink:
        """The link to a node; it need not be there yet."""
        return SimLink(self._network, self._port, url)

    def drop(self, url: str) -> None:
        """Nothing is held open."""
