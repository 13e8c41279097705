"""Whether requests that are cancelled while they are sent, or while they wait, leave memory behind.

Half of the requests go to an address where nobody listens, so that they are cancelled unsent; half
to an actor that answers too late, so that they are cancelled sent. Resident memory is read at
intervals; bare pynng would keep every unsent one.

    python benchmarks/cancelled_sends.py [--sends 20000] [--bytes 500000]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
from pathlib import Path

import trio
from timing import machine

from envs_node.actors.mailbox import Mailbox, Ref
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.desktop import FrameFetched

ME = ActorName("benchmark")
NOBODY = ActorName("nobody")
LATE = ActorName("late")
CANCELLED_AFTER_S = 0.001
INTERVALS = 20


def resident_mb() -> float:
    """Resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


async def cancel_sends(refs: tuple[Ref, ...], count: int, size_bytes: int) -> None:
    """Ask the actors in turns, and cancel each request."""
    message = FrameFetched(frame="f", png=bytes(size_bytes))
    for number in range(count):
        with trio.move_on_after(CANCELLED_AFTER_S):
            await refs[number % len(refs)].ask(message, timeout_s=60)


async def answer_late(mailbox: Mailbox) -> None:
    """Answer each request when the next one has come."""
    before = await mailbox.get()
    while True:
        delivery = await mailbox.get()
        before.answer(None)
        before = delivery


async def run(folder: str, sends: int, size_bytes: int) -> list[float]:
    """Resident memory in MB: after a warm-up, then at each interval."""
    here, there = Post(RunId("benchmark")), Post(RunId("benchmark"))
    mailbox = Mailbox(LATE)
    there.register(mailbox)
    async with open_links() as links, trio.open_nursery() as nursery:
        url = await nursery.start(serve, there.deliver, f"ipc://{folder}/late")
        nursery.start_soon(answer_late, mailbox)
        here.add_route(LATE, links.to(url))
        here.add_route(NOBODY, links.to(f"ipc://{folder}/nobody"))
        refs = (here.ref(NOBODY, sender=ME), here.ref(LATE, sender=ME))
        await cancel_sends(refs, sends // INTERVALS, size_bytes)
        resident = [resident_mb()]
        for _ in range(INTERVALS):
            await cancel_sends(refs, sends // INTERVALS, size_bytes)
            resident.append(resident_mb())
        nursery.cancel_scope.cancel()
    return resident


def main() -> None:
    """Measure, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sends", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=500_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        resident = trio.run(run, folder, options.sends, options.bytes)
    result = {
        "machine": machine(),
        "sends": options.sends,
        "bytes": options.bytes,
        "resident_mb": [round(value, 1) for value in resident],
        "growth_mb": round(resident[-1] - resident[0], 1),
        "spread_mb": round(max(resident) - min(resident), 1),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
