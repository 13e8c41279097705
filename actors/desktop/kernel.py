"""The few Linux calls that Python lacks: namespaces, mounts, process control. Stdlib only."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct

NEW_MOUNT, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
READONLY, NOSUID, NODEV, NOEXEC, BIND = 1, 2, 4, 8, 4096
_PRIVATE_RECURSIVE = 16384 | 1 << 18
_DETACH = 2
PDEATHSIG, CHILD_SUBREAPER, NO_NEW_PRIVS = 1, 36, 38

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    """Mount a file system of a kind; `data` are its options."""
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None)
    _check(_libc.mount(*arguments, flags, data.encode()), f"mount {kind} on {target}")


def unmount(target: str) -> None:
    """Take a mount away, now if nobody uses it, else as soon as nobody does."""
    _check(_libc.umount2(target.encode(), _DETACH), f"umount of {target}")


def make_private() -> None:
    """Keep this mount namespace's mounts from its parent's, and the other way round."""
    mount("none", "/", None, _PRIVATE_RECURSIVE)


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones."""
    _check(_libc.unshare(flags), "unshare")


def enter(pid: int) -> None:
    """Join the namespaces of a process; children of this one are born inside.

    The user namespace comes first where it is another: the right to join the others lies in it.
    """
    names = ["ipc", "uts", "net", "pid", "mnt"]
    if os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user"):
        names.insert(0, "user")
    handles = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    for handle in handles:
        _check(_libc.setns(handle, 0), "setns")


def change_root(folder: str) -> None:
    """Make a mount point the root, and let the old root go."""
    os.chdir(folder)
    number = _PIVOT_ROOT[platform.machine()]
    # The old root lands on top of the new one and is detached: no folder is needed for it.
    _check(_libc.syscall(number, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount of the old root")
    os.chdir("/")


def control(option: int, value: int) -> None:
    """Set an attribute of this process with prctl."""
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def raise_loopback() -> None:
    """Bring the loopback device of this network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, 0x8913, request))[1]
        fcntl.ioctl(handle, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
