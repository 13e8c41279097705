"""A head with fake desktops, as a process that a test can kill.

Run with the root of its runs, the name of a run, and `resume` to go on with it. It ends when the
run is over.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import trio

from envs_node.deploy.logs import keep_logs
from tests.deploy.fake_node import CONFIG, FakeNode

_SEARCH = msgspec.structs.replace(CONFIG.search, leaves_task_max=12, successes_task_max=12)


async def main(root: Path, run: str, *, is_resumed: bool) -> None:
    """Do the run to its end, on one desktop: so its order is the same each time."""
    config = msgspec.structs.replace(CONFIG, search=_SEARCH)
    node = FakeNode(root, desktops=1, config=config)
    async with node.open():
        await node.start(run, is_resumed=is_resumed)
        await node.finish(run)


if __name__ == "__main__":
    with keep_logs(node="head", folder=Path(sys.argv[1]) / "logs", to_stderr=False):
        trio.run(lambda: main(Path(sys.argv[1]), sys.argv[2], is_resumed="resume" in sys.argv))
