"""Owns an estate and starts something in it, as a node does: run by the tests of the sweep.

    python -m tests.deploy.owning_process STATE NODE [COMMAND ...]

It starts the command, says its own id, the command's process id and its scratch folder, and waits.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from envs_node.deploy.estate import estate


def main() -> None:
    """Own, start, say, wait for the end of standard input."""
    state, node, *command = sys.argv[1:]
    socket = Path(state) / f"{node}.sock"
    with estate(node, sockets=(str(socket),), state=Path(state)) as owner:
        child = subprocess.Popen(command or ["sleep", "600"], start_new_session=True)
        with tempfile.NamedTemporaryFile(delete=False) as kept:
            kept.write(b"x")
        sys.stdout.write(f"{owner.id} {child.pid} {owner.scratch}\n")
        sys.stdout.flush()
        sys.stdin.read()
        child.kill()
        child.wait()


if __name__ == "__main__":
    main()
