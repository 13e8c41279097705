"""A process that ends while asks, tells and answers are under way in every direction.

Run with an address and how long it should go on; writes a line once the traffic is under way. A
signal ends it earlier.
"""

from __future__ import annotations

import signal
import sys

import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.search import Idle, Tick, WorkWanted

ME = ActorName("me")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SlowActor(Actor[WorkWanted | Tick]):
    """Answers after a while."""

    async def hear(self, message: WorkWanted | Tick) -> Message | None:
        await trio.sleep(0.002)
        return Idle(retry_ms=1)


async def ask_on(ref: Ref, timeout_s: float) -> None:
    """Ask until cancelled."""
    while True:
        try:
            await ref.ask(WorkWanted(worker=ME), timeout_s=timeout_s)
        except (AskTimeoutError, ActorCrashedError):
            continue


async def main(url: str, run_s: float) -> None:
    """Talk for a while or until a signal, then cancel everything at once."""
    with trio.move_on_after(run_s), trio.open_signal_receiver(*SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, url)
            async for _ in signals:
                nursery.cancel_scope.cancel()


async def talk(url: str) -> None:
    """Talk until cancelled."""
    server, client = Post(RunId("r")), Post(RunId("r"))
    async with open_links() as links, trio.open_nursery() as nursery:
        await nursery.start(serve, server.deliver, url)
        for number in range(4):
            name = ActorName(f"slow/{number}")
            await nursery.start(run_actor, SlowActor(), name, server)
        client.add_route("slow/", links.to(url))
        client.add_route("gone/", links.to(url + ".gone"))
        for number in range(40):
            ref = client.ref(ActorName(f"slow/{number % 4}"), sender=ME)
            ref.tell(Tick())
            nursery.start_soon(ask_on, ref, 0.003 * (number + 1))
        gone = client.ref(ActorName("gone/0"), sender=ME)
        gone.tell(Tick())
        nursery.start_soon(ask_on, gone, 0.05)
        await client.ref(ActorName("slow/0"), sender=ME).ask(Tick(), timeout_s=10)
        sys.stdout.write("talking\n")
        sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], float(sys.argv[2]))
