"""Confines the process that judges: its own network, processes, mounts, root and user.

Loaded by file in the checker's own Python; knows nothing of envs_node. What a desktop answers is
hostile, and some of OSWorld's metrics run it as code. So the judging process sees the desktop's
network, the system's libraries, its Python and one working folder, and nothing else of the host.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_FSIZE, 512 * 1024**2),
    (resource.RLIMIT_NOFILE, 512),
    (resource.RLIMIT_NPROC, 128),
    (resource.RLIMIT_AS, 8 * 1024**3),
)
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends. A change of user undoes it."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")


def enter(guest_pid: int) -> None:
    """Move into the desktop's network; the next child has its own processes, mounts and IPC."""
    descriptor = os.open(f"/proc/{guest_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.setns(descriptor, _CLONE_NEWNET), "setns")
    os.close(descriptor)
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def confine(work: str, uid: int) -> None:
    """Give up root, for good, in a root folder that holds only what judging needs.

    Args:
        work: the verdict's folder. `cache`, `home` and `tmp` in it belong to `uid`; `root` is
            empty. It keeps its path.
        uid: the user to become.
    """
    root = os.path.join(work, "root")
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=64m,mode=0755")
    os.mkdir(f"{root}/tmp")
    os.chmod(f"{root}/tmp", 0o1777)
    for path in _needed():
        _show(root, path, is_read_only=True)
    _show(root, work, is_read_only=False)
    os.makedirs(f"{root}/proc")
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    os.chroot(root)
    os.chdir(os.path.join(work, "home"))
    os.umask(0o077)
    os.environ.clear()
    os.environ.update(
        HOME=os.path.join(work, "home"),
        TMPDIR=os.path.join(work, "tmp"),
        PATH="/usr/local/bin:/usr/bin:/bin",
        LANG="C.UTF-8",
    )
    for limit, most in _LIMITS:
        resource.setrlimit(limit, (most, most))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _needed() -> Iterator[str]:
    """The system's programs and libraries, this Python, and its environment."""
    yield from (path for path in (*_SYSTEM, *_DEVICES) if os.path.exists(path))
    for path in (sys.base_prefix, sys.prefix):
        is_shown = any(path == shown or path.startswith(f"{shown}/") for shown in _SYSTEM)
        if not is_shown:
            yield path


def _show(root: str, path: str, *, is_read_only: bool) -> None:
    """Make one file or folder of the host visible below `root`, at its own path."""
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, target, None, _MS_BIND)
    if is_read_only and os.path.isdir(path):
        _mount("none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind and kind.encode(), flags, options.encode()
    )
    _check(result, f"mount {source} at {target}")


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
