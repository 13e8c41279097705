"""Confines the process that judges: its own network, processes, mounts, root and user.

As root it becomes a user to whom nothing belongs. Without root the desktop has a user namespace,
and the judging process gets one inside that: there it becomes an id that the host has lent the
desktop's owner; where it has lent none it stays the owner, but holds no privilege, sees read-only
system folders alone, and all it writes lies in memory that goes with it.

Loaded by file in the checker's own Python; knows nothing of envs_node. What a desktop answers is
hostile, and some of OSWorld's metrics run it as code. So the judging process sees the desktop's
network, the system's libraries, its Python and one working folder, and nothing else of the host.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
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
_WORK_OPTIONS = "size=1g,mode=0711"
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_CAPABILITIES_V3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends. A change of user undoes it."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")


def gain_nothing() -> None:
    """Gain no privilege by whatever is run from here on."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def enter_nowhere(uid: int) -> None:
    """Move into a network with nothing in it; else as `enter`, for a desktop that is not here."""
    own = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    if os.geteuid() == 0:
        _check(_libc.unshare(own), "unshare")
    else:
        _leave_users(own, f"{uid} {os.geteuid()} 1\n", is_lone=True)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def enter(guest_pid: int, uid: int) -> None:
    """Move into the desktop's network; the next child has its own processes, mounts and IPC.

    Args:
        guest_pid: a process of the desktop.
        uid: the user that `confine` will become.
    """
    spaces = {"net": _CLONE_NEWNET}
    if os.readlink(f"/proc/{guest_pid}/ns/user") != os.readlink("/proc/self/ns/user"):
        spaces = {"user": _CLONE_NEWUSER, **spaces}  # the right to the others comes with it
    handles = {name: os.open(f"/proc/{guest_pid}/ns/{name}", os.O_RDONLY) for name in spaces}
    for name, handle in handles.items():
        _check(_libc.setns(handle, spaces[name]), f"setns {name}")
        os.close(handle)
    own = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID
    if "user" in spaces:
        _leave_users(own, _who(uid))
    else:
        _check(_libc.unshare(own), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def _who(uid: int) -> str:
    """Who is who in a user namespace inside the desktop's, in which `uid` is somebody."""
    with open("/proc/self/uid_map", encoding="ascii") as source:
        ranges = [[int(number) for number in line.split()] for line in source]
    is_lent = any(first <= uid < first + count for first, _, count in ranges)
    user = os.geteuid()
    return f"{user} {user} 1\n{uid} {uid} 1\n" if is_lent else f"{uid} {user} 1\n"


def _leave_users(flags: int, who: str, *, is_lone: bool = False) -> None:
    """Leave for a user namespace of our own, in which these are somebody.

    Whoever leaves may no longer say who is who there. So a child stays behind, which still may.

    Args:
        is_lone: nobody has lent us ids: then groups may not be changed there.
    """
    leaver = os.getpid()
    told, tell = os.pipe()
    helper = os.fork()
    if helper == 0:
        status = 1
        try:
            os.read(told, 1)
            if is_lone:
                with open(f"/proc/{leaver}/setgroups", "w", encoding="ascii") as sink:
                    sink.write("deny")
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{leaver}/{name}", "w", encoding="ascii") as sink:
                    sink.write(who)
            status = 0
        finally:
            os._exit(status)
    try:
        _check(_libc.unshare(_CLONE_NEWUSER | flags), "unshare")
    finally:
        os.write(tell, b"x")
        os.close(tell)
        os.close(told)
        status = os.waitpid(helper, 0)[1]
    if status != 0:
        raise OSError(f"nobody could be {who.split()[0]} beside the desktop: status {status}")


def confine(work: str, uid: int) -> None:
    """Give up root, for good, in a root folder that holds only what judging needs.

    Args:
        work: the verdict's folder. It keeps its path, and is a copy: its `cache`, `home` and `tmp`
            belong to `uid`. `root` in it is empty.
        uid: the user to become.
    """
    root = os.path.join(work, "root")
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=64m,mode=0755")
    os.mkdir(f"{root}/tmp")
    os.chmod(f"{root}/tmp", 0o1777)
    for path in _needed():
        _show(root, path)
    _copy_work(work, root, uid)
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
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    with open("/proc/self/setgroups", encoding="ascii") as source:
        if source.read() == "allow\n":  # else nobody may drop groups here, nor gain by them
            os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _drop_capabilities()
    gain_nothing()


def _copy_work(work: str, root: str, uid: int) -> None:
    """Copy the verdict's folder into memory that ends with this process, for another user.

    So no file of a check fills a disk of the host's, nor fails because others did.
    """
    os.makedirs(f"{root}{work}")
    _mount("tmpfs", f"{root}{work}", "tmpfs", _MS_NOSUID | _MS_NODEV, _WORK_OPTIONS)
    for name in sorted(os.listdir(work)):
        source, target = f"{work}/{name}", f"{root}{work}/{name}"
        if os.path.isfile(source):
            shutil.copy(source, target)
        elif name != "root":
            shutil.copytree(source, target, symlinks=True)
            for folder, names, files in os.walk(target):
                for path in (folder, *(f"{folder}/{entry}" for entry in (*names, *files))):
                    os.chown(path, uid, uid, follow_symlinks=False)


def _drop_capabilities() -> None:
    """Hold none. Root loses all when it becomes another user; who was none keeps them."""
    header, nothing = struct.pack("=Ii", _CAPABILITIES_V3, 0), struct.pack("=6I", *[0] * 6)
    _check(_libc.capset(header, nothing), "capset")


def _needed() -> Iterator[str]:
    """The system's programs and libraries, this Python, and its environment."""
    yield from (path for path in (*_SYSTEM, *_DEVICES) if os.path.exists(path))
    for path in (sys.base_prefix, sys.prefix):
        is_shown = any(path == shown or path.startswith(f"{shown}/") for shown in _SYSTEM)
        if not is_shown:
            yield path


def _show(root: str, path: str) -> None:
    """Let one file or folder of the host be read below `root`, at its own path."""
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    if os.geteuid() == 0:
        _mount(path, target, None, _MS_BIND)
        if os.path.isdir(path):
            flags = _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            _mount("none", target, None, flags)
        return
    # Without root a folder shows with what is mounted below it, or not at all.
    _mount(path, target, None, _MS_BIND | _MS_REC)
    if os.path.isdir(path):
        attributes = struct.pack("=4Q", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, 0, 0, 0)
        place = (_AT_FDCWD, target.encode(), _AT_RECURSIVE)
        result = _libc.syscall(_MOUNT_SETATTR, *place, attributes, len(attributes))
        _check(result, f"closing {target}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind and kind.encode(), flags, options.encode()
    )
    _check(result, f"mount {source} at {target}")


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
