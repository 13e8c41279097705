"""A node in small that dies amid an action: it holds a key or a button down until it is killed.

python -m tests.deploy.holding_process key|button
"""

from __future__ import annotations

import sys

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Action, Drag, Key, Point
from tests.fakes_desktop import make_task

ACTIONS: dict[str, Action] = {
    "key": Key(keys=("ctrl", "x"), hold_ms=4000),
    "button": Drag(path=tuple(Point(x, y) for x in range(100, 200) for y in range(100, 105))),
}


def main() -> None:
    """Start a desktop, say which, and act on it again and again."""
    action = ACTIONS[sys.argv[1]]
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        sandbox.reset(make_task())
        sys.stdout.write(f"{sandbox.guest_pid}\n")
        sys.stdout.flush()
        while True:
            sandbox.act(action)


if __name__ == "__main__":
    main()
