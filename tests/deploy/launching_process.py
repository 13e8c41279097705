"""A node in small that starts desktops and applications in them again and again, until killed.

python -m tests.deploy.launching_process STATE
"""

from __future__ import annotations

import sys
from pathlib import Path

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.estate import estate, owner_label
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.sweep import sweep
from tests.fakes_desktop import open_task


def main() -> None:
    """Sweep, own, and launch."""
    state = Path(sys.argv[1])
    task = open_task("soffice", "--norestore", "--nologo", "--calc")
    with keep_logs(node="launching"):
        sweep(state)
    with estate("launching", state=state) as owner, Launcher(label=owner_label()) as launcher:
        sys.stdout.write(f"{owner.id}\n")
        sys.stdout.flush()
        while True:
            sandbox = Sandbox(launcher)
            sandbox.reset(task)
            sandbox.close()


if __name__ == "__main__":
    main()
