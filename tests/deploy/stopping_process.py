"""A node in small, stopped by signals: run by `test_stopping.py`.

python -m tests.deploy.stopping_process FOLDER KIND
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import trio

from envs_node.deploy.cli.console import run_until_interrupted, tell
from envs_node.deploy.cli.main import status_of
from envs_node.deploy.estate import estate
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.slot import tell_crash
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tree import Supervisor


async def slow(*, task_status: trio.TaskStatus[None]) -> None:
    """Takes half a second to clean up."""
    task_status.started()
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.5)
        tell("closed")


async def stuck(*, task_status: trio.TaskStatus[None]) -> None:
    """Hangs in a thread that nothing wakes."""
    task_status.started()
    await trio.to_thread.run_sync(time.sleep, 600)


async def dying(*, task_status: trio.TaskStatus[None]) -> None:
    """Crashes."""
    task_status.started()
    raise ZeroDivisionError("the cause")


def main() -> None:
    """Run until a signal comes, as a verb does."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    start = {"slow": slow, "stuck": stuck, "dying": dying, "killed": dying}[kind]
    spec = ChildSpec(name="child", start=start, destroy_s=0.2)
    again = Intensity(burst=2 if kind == "dying" else 100, first_s=0.01)
    tree = Supervisor("node", [spec], intensity=again, publish=tell_crash)

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            tell(f"ready {os.getpid()}")

    def run() -> int:
        with keep_logs(node="n", folder=folder, to_stderr=False), estate("n", state=folder):
            run_until_interrupted(serve, "hint", left_s=0.5)
        return 0

    sys.exit(status_of(run))


if __name__ == "__main__":
    main()
