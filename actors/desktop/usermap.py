"""Who of the host stands for whom inside a desktop that is made without root.

The desktop's user is the caller, who so reaches its files, its X server and its buses as its own.
Where the host lends the caller ids (`/etc/subuid`, `newuidmap`), they stand for root and everybody
else inside; where it does not, nobody else is there. Standard library alone.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from envs_node.actors.desktop import kernel

USER_ID = 1000
_IDS_LENT = 65536
_CAP_SYS_ADMIN = 21
_HELPER_TIMEOUT_S = 10.0

_Range: TypeAlias = "tuple[int, int, int]"
"""The first id inside, the first outside, and how many."""


@dataclass(frozen=True, kw_only=True)
class UserMap:
    """The users and groups of one user namespace."""

    uids: tuple[_Range, ...]
    gids: tuple[_Range, ...]

    @property
    def has_root(self) -> bool:
        """Whether there is a root inside, and the other users of a system."""
        return len(self.uids) > 1

    def write(self, pid: int) -> None:
        """Give it to a process that has just left for a user namespace of its own.

        Raises:
            OSError: the host refused.
        """
        if self.has_root:
            _run_helper("newuidmap", pid, self.uids)
            _run_helper("newgidmap", pid, self.gids)
            return
        texts = {"setgroups": "deny", "uid_map": _line(self.uids), "gid_map": _line(self.gids)}
        for name, text in texts.items():
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as sink:
                sink.write(text)


def may_mount() -> bool:
    """Whether this process may do what desktops take without a user namespace: as root may."""
    with open("/proc/self/status", encoding="ascii") as source:
        effective = next(line.split()[1] for line in source if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)


def choose_map() -> UserMap:
    """The richest map that this host grants the caller."""
    try:
        lent = lent_map()
        probe(lent)
    except OSError:
        return own_map()
    return lent


def own_map() -> UserMap:
    """The caller alone. Needs nothing but that user namespaces are allowed."""
    return UserMap(uids=((USER_ID, os.geteuid(), 1),), gids=((USER_ID, os.getegid(), 1),))


def lent_map() -> UserMap:
    """The caller, and the ids that are lent to it.

    Raises:
        OSError: none are, or too few, or the program that would map them is missing.
    """
    for helper in ("newuidmap", "newgidmap"):
        if shutil.which(helper) is None:
            raise OSError(f"{helper} is not installed")
    names = {str(os.geteuid())}
    try:
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError as error:
        raise OSError(f"user {os.geteuid()} has no name, which newuidmap asks for") from error
    uids = _around(os.geteuid(), _first_lent("/etc/subuid", names))
    return UserMap(uids=uids, gids=_around(os.getegid(), _first_lent("/etc/subgid", names)))


def probe(users: UserMap) -> None:
    """Make a user namespace with this map, and let it go.

    Raises:
        OSError: the host refused.
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        _leave_and_wait(tell)
    os.close(tell)
    try:
        with os.fdopen(told, "r") as source:
            refusal = source.readline()
            if refusal != "\n":
                raise OSError(refusal.strip() or "the probe's process died")
            users.write(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _leave_and_wait(tell: int) -> NoReturn:
    try:
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        kernel.unshare(kernel.NEW_USER)
        os.write(tell, b"\n")
        signal.pause()
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        os.write(tell, f"{error}\n".encode())
    os._exit(0)


def _around(own: int, lent: int) -> tuple[_Range, ...]:
    """The caller as the desktop's user, and lent ids for everybody else."""
    above = USER_ID + 1
    return ((0, lent, USER_ID), (USER_ID, own, 1), (above, lent + above, _IDS_LENT - above))


def _first_lent(file: str, names: set[str]) -> int:
    with open(file, encoding="utf-8", errors="replace") as source:
        for line in source:
            name, *numbers = line.strip().split(":")
            if name in names and len(numbers) == 2 and int(numbers[1]) >= _IDS_LENT:
                return int(numbers[0])
    raise OSError(f"{file} lends {' or '.join(sorted(names))} no {_IDS_LENT} ids")


def _line(ranges: Sequence[_Range]) -> str:
    return "\n".join(" ".join(map(str, one)) for one in ranges)


def _run_helper(helper: str, pid: int, ranges: Sequence[_Range]) -> None:
    numbers = [str(number) for one in ranges for number in one]
    try:
        done = subprocess.run(
            [helper, str(pid), *numbers],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_HELPER_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{helper} took more than {_HELPER_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise OSError(f"{helper}: {done.stderr.strip() or f'exit status {done.returncode}'}")
