"""What a user who is not root sees of a desktop, as JSON: run by `test_rootless.py`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key, Type
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import open_task


def processes_of_mine() -> list[int]:
    """Every process of this user but this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_mine = entry.stat().st_uid == os.getuid()
        except FileNotFoundError:
            continue
        if is_mine and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def main() -> None:
    """Reset a desktop, type, save, look around in it, close it."""
    seen: dict[str, object] = {"uid": os.getuid()}
    mounts = Path("/proc/self/mountinfo").read_text()
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        task = open_task("mousepad", "/home/user/notes.txt", files={"notes.txt": b""})
        start = sandbox.reset(task)
        end = sandbox.act(Type(text="typed: ä€"))
        sandbox.act(Key(keys=("ctrl", "s")))
        saved = inside(sandbox, "/home/user/notes.txt")
        wait_until(lambda: saved.read_text() != "")
        seen["text"] = saved.read_text()
        seen["elements"] = len(end.elements)
        seen["is_drawn"] = start.signature.frame != end.signature.frame
        seen["files"] = start.signature.files != sandbox.observe().signature.files
        seen["whoami"] = shell(sandbox, "id -u; id -un; hostname").split()
        seen["groups"] = shell(sandbox, "id -G").split()
        seen["capabilities"] = shell(sandbox, "grep CapEff /proc/self/status").split()[1]
        seen["owner_of_etc"] = shell(sandbox, "stat -c %U /etc/hostname").strip()
        closed = "/usr/bin /etc /var/tmp /opt /root /home / /run /dev"
        seen["writable"] = shell(sandbox, f"for f in {closed}; do test -w $f && echo $f; done")
        seen["mount"] = shell(sandbox, "mount -t tmpfs x /tmp && echo mounted")
        seen["home"] = shell(sandbox, f"ls {Path.home()} {Path(__file__).parent}")
        seen["links"] = shell(sandbox, "ls /sys/class/net /proc/net/dev; cat /proc/net/route")
        seen["before"] = len(processes_of_mine())
        sandbox.close()
    seen["left"] = processes_of_mine()
    seen["mounts_are_as_before"] = Path("/proc/self/mountinfo").read_text() == mounts
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
