"""A head with fake desktops, as a process that a test can kill.

Run with the root of its runs and the name of a run, and `resume` to go on with it: it ends when the
run is over. Or run with the root and the address to listen at, and `resume` to go on with whatever
was on there: it serves until it is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import trio

from envs_node import __version__
from envs_node.actors.head.actor import HeadActor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import serve
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.membership import HEAD
from tests.deploy.fake_node import CONFIG, FakeNode

SEARCH = msgspec.structs.replace(CONFIG.search, leaves_task_max=12, successes_task_max=12)
LONG = msgspec.structs.replace(CONFIG, search=SEARCH)


async def main(root: Path, run: str, *, is_resumed: bool) -> None:
    """Do the run to its end, on one desktop: so its order is the same each time."""
    node = FakeNode(root, desktops=1, config=LONG)
    async with node.open():
        await node.start(run, is_resumed=is_resumed)
        await node.finish(run)


async def serve_head(root: Path, url: str, *, is_resumed: bool) -> None:
    """Be a head whose runs bring a fake desktop."""
    node = FakeNode(root, desktops=1, config=LONG)
    async with node.open(), trio.open_nursery() as nursery:
        if is_resumed:
            await node.runs.resume_last()
        actor = HeadActor(node.runs, node="h", version=__version__)
        await nursery.start(run_actor, actor, HEAD, node.post)
        await nursery.start(serve, node.post.deliver, url)


if __name__ == "__main__":
    with keep_logs(node="head", folder=Path(sys.argv[1]) / "logs", to_stderr=False):
        act = serve_head if "://" in sys.argv[2] else main
        trio.run(lambda: act(Path(sys.argv[1]), sys.argv[2], is_resumed="resume" in sys.argv))
