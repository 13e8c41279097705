"""Runs a program as a user whom the system does not know, with a home of its own in memory.

python stranger.py UID PROGRAM ARGUMENT…     # as root; ends as the program does

It happens in a private mount namespace, so that nothing of the system's is touched: no account is
made, and folders that only root may enter (root's own home, where a Python may lie) are covered by
ones that show what the program needs and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envs_node.actors.desktop import kernel

ROOT = Path(__file__).parents[1]
HOME = "/home/stranger"
UID = 48000 + os.getpid() % 8000
"""Another one for each run of the tests: what a stranger leaves behind is then that stranger's."""
_KEPT = ("ENVS_", "PYTHON")


def run_as_stranger(
    *arguments: str, accounts: Mapping[str, str] | None = None, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run this Python with arguments in the repository, as a stranger.

    Whoever is not root is strange enough, and runs it as it is.

    Args:
        accounts: files of the system, such as `/etc/subuid`, that the stranger sees otherwise.
    """
    command = [sys.executable, *arguments]
    if os.geteuid() == 0:
        files = [f"{path}={text}" for path, text in (accounts or {}).items()]
        command = [sys.executable, "-m", "tests.stranger", *files, str(UID), *command]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def become_stranger(uid: int, accounts: Mapping[str, str]) -> None:
    """Leave the system as it is, and be a stranger to it from here on."""
    kernel.unshare(kernel.NEW_MOUNT)
    kernel.make_private()
    needed = [os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, ROOT)]
    closed = {
        str(folder) for path in needed for folder in Path(path).parents if not _is_open(folder)
    }
    for folder in sorted({"/home", *closed}):
        _cover(folder, [path for path in needed if path.startswith(f"{folder}/")])
    os.mkdir(HOME, 0o700)
    os.chown(HOME, uid, uid)
    for path, text in accounts.items():
        copy = f"/home/{path.replace('/', '-')}"
        Path(copy).write_text(text, encoding="ascii")
        kernel.mount(copy, path, None, kernel.BIND)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)


def _cover(folder: str, needed: Sequence[str]) -> None:
    """Mount an empty folder over one, and show in it what of it is needed."""
    handles = {path: os.open(path, os.O_PATH) for path in needed}
    kernel.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
    for path, handle in handles.items():
        os.makedirs(path)
        kernel.mount(f"/proc/self/fd/{handle}", path, None, kernel.BIND)
        os.close(handle)


def main() -> None:
    """Become a stranger and run a program."""
    words = sys.argv[1:]
    accounts = {}
    while "=" in words[0]:
        path, _, text = words.pop(0).partition("=")
        accounts[path] = text
    become_stranger(int(words[0]), accounts)
    own = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    name = f"stranger-{words[0]}"  # after which pytest names its folder, which must be one's own
    environment = {
        "HOME": HOME, "USER": name, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **own
    }  # fmt: skip
    os.execve(words[1], words[1:], environment)


if __name__ == "__main__":
    main()
