"""The simulated network loses, doubles and delays, and keeps each sender's order."""

from __future__ import annotations

from random import Random

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.deploy.sim.machine import Toil
from envs_node.deploy.sim.network import Agenda, Line, Network, Port, SimLink, next_tick_s
from envs_node.messages.base import ActorName, Envelope, Message, MessageId, RunId
from envs_node.messages.search import Tick


def _envelope(sender: str, number: int) -> Envelope[Message]:
    return Envelope(
        id=MessageId(f"{sender}-{number}"),
        sender=ActorName(sender),
        to=ActorName("there"),
        run=RunId("r"),
        sequence=number,
        time_ns=0,
        message=Tick(),
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 0.3), st.floats(0, 0.3))
def test_each_senders_messages_arrive_in_order_whatever_is_lost_or_late(
    seed: int, doubling: float, lateness: float
):
    heard: list[tuple[str, int]] = []

    async def main() -> None:
        agenda = Agenda()
        line = Line(jitter_s=0.5, loss=0.1, doubling=doubling, lateness=lateness)
        network = Network(agenda, line, Random(seed), lambda _there, _envelope: None)
        here = Port("here", lambda _envelope, _reply: None)
        there = Port("there", lambda e, _reply: heard.append((e.sender, e.sequence)))
        network.open(there)
        link = SimLink(network, here, "there")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agenda.run)
            for number in range(20):
                for sender in ("a", "b"):
                    link.tell(_envelope(sender, number))
                await trio.sleep(0.05)
            await trio.sleep(60)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    for sender in ("a", "b"):
        numbers = [number for who, number in heard if who == sender]
        assert numbers == sorted(numbers)
    assert heard


async def test_a_dead_node_hears_nothing_and_a_frozen_one_hears_late(autojump_clock: object):
    heard: list[tuple[float, int]] = []
    agenda = Agenda()
    network = Network(agenda, Line(), Random(1), lambda _there, _envelope: None)
    here = Port("here", lambda _envelope, _reply: None)
    there = Port("there", lambda e, _reply: heard.append((trio.current_time(), e.sequence)))
    network.open(there)
    link = SimLink(network, here, "there")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(agenda.run)
        there.frozen_until_s = trio.current_time() + 10
        link.tell(_envelope("a", 1))
        await trio.sleep(20)
        network.close(there)
        link.tell(_envelope("a", 2))
        await trio.sleep(20)
        nursery.cancel_scope.cancel()

    assert [(round(at_s), number) for at_s, number in heard] == [(10, 1)]


async def test_what_blocks_takes_its_time_after_it_is_done(autojump_clock: object):
    toil = Toil()
    done: list[float] = []

    def call() -> str:
        toil.spend(1.5)
        done.append(trio.current_time())
        return "made"

    assert await toil.run(call) == "made"
    assert (done, trio.current_time()) == ([0.0], 1.5)


def test_time_goes_in_milliseconds():
    assert next_tick_s(0.0101) == 0.011
    assert next_tick_s(next_tick_s(0.0101)) == 0.011
