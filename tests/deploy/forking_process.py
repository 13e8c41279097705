"""A node in small that brings clones of a desktop up again and again, until killed.

python -m tests.deploy.forking_process STATE
"""

from __future__ import annotations

import sys
from pathlib import Path

from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.estate import estate, owner_label
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.sweep import sweep
from tests.actors.desktop.forking import desktops, open_store
from tests.fakes_desktop import open_task


def main() -> None:
    """Sweep, own, keep a desktop, and have two clones of it at a time."""
    state = Path(sys.argv[1])
    task = open_task("xterm")
    with keep_logs(node="forking"):
        sweep(state)
    with (
        estate("forking", state=state) as owner,
        Launcher(label=owner_label()) as launcher,
        open_store(launcher) as store,
        desktops(launcher, store, 3) as (origin, *clones),
    ):
        sys.stdout.write(f"{owner.id}\n")
        sys.stdout.flush()
        origin.keep_fork(prefix_keys(task, ())[-1], (origin.reset(task),))
        while True:
            for clone in clones:
                clone.reset_forked(task, ())


if __name__ == "__main__":
    main()
