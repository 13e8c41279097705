"""The file tree of a desktop: the host's programs, our settings, and nothing of anybody's home.

Runs in the first process of a new desktop, inside its fresh namespaces. Stdlib only.
Everything lies on one tmpfs that is mounted after the mount namespace became private, so the
host's mount table never shows it, and it is gone with the last process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.layer import Entry, write_layer
from envs_node.actors.desktop.lower import Lower, mount_image, open_lower
from envs_node.actors.desktop.patchwork import Patchwork
from envs_node.actors.desktop.usermap import USER_ID

STAGE = "/tmp"  # any folder that every host has; it is covered in this mount namespace only
_DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
    "tty": (5, 0),
}  # fmt: skip
_TERMINALS_MAX = 128
"""Pseudo-terminals of a desktop; the host has 4096 for all."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a desktop's file tree is made of."""

    entries: tuple[Entry, ...]
    """What is laid over what it stands on."""
    disk_bytes: int
    """What the desktop may write at most, in all its places together."""
    lower: str
    """What it stands on: a folder, or an image."""
    device: str
    """The block device of the image; `""` for a folder."""
    is_root: bool
    """Whether root of the host builds it; else whoever is root of a user namespace."""


def build_root(plan: Plan) -> int:
    """Replace the root of this mount namespace by a desktop's own. Afterwards cwd is `/`.

    Returns:
        A descriptor of the folder that holds the writable layer, `upper`.
    """
    stage, lower = build_stage(plan)
    os.chdir(f"{STAGE}/root")
    _mount_devices(plan.disk_bytes // 8, is_root=plan.is_root)
    _mount_runtime(plan.disk_bytes // 4, plan.disk_bytes // 8)
    if os.geteuid() != 0:
        _close_folders(lower)
    kernel.change_root(f"{STAGE}/root")
    return stage


def build_stage(plan: Plan, fill: Callable[[str], None] = lambda _: None) -> tuple[int, Lower]:
    """Mount the file tree of a desktop, all but what is in memory alone, at `STAGE`/root.

    Args:
        fill: puts what the desktop has written so far into the folder it is given.

    Returns:
        A descriptor of the folder that holds the writable layer, `upper`; and what is below.
    """
    kernel.make_private()
    lower = None if plan.device else open_lower(plan.lower)
    kernel.mount("tmpfs", STAGE, "tmpfs", 0, f"mode=755,{_size(plan.disk_bytes // 2)}")
    for name in ("upper", "work", "root", "layer", "lower", "empty"):
        os.mkdir(f"{STAGE}/{name}", 0o755)
    lower = lower or mount_image(plan.device, f"{STAGE}/lower")
    write_layer(f"{STAGE}/layer", plan.entries, lower)
    fill(f"{STAGE}/upper")
    stage = os.open(STAGE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if plan.is_root:
        _lay_overlay(lower)
    else:
        Patchwork(STAGE, lower, "userxattr").lay_root()
    return stage, lower


def _lay_overlay(lower: Lower) -> None:
    """Lay one overlay over all of it, but for what it does not see: mounts of their own."""
    layer = f"{STAGE}/layer"
    for name in lower.absent:
        os.mknod(f"{layer}/{name}", stat.S_IFCHR, 0)  # a whiteout: not there at all
    for place in lower.hidden:
        os.setxattr(f"{layer}/{place}", "trusted.overlay.opaque", b"y")
    # A copy of a running desktop (CRIU) keeps watches on files by handle; that takes these two.
    options = "index=on,nfs_export=on"
    folders = f"lowerdir={layer}:{lower.folder or '/'},upperdir={STAGE}/upper"
    folders += f",workdir={STAGE}/work"
    kernel.mount("overlay", f"{STAGE}/root", "overlay", 0, f"{options},{folders}")
    Patchwork(STAGE, lower, options).mend()


def _close_folders(lower: Lower) -> None:
    """Keep the user, who owns all of it where there is no root, from what is not the user's."""
    for place in (".", *lower.hidden, "run/user"):
        if place not in ("tmp", "proc") and os.path.isdir(place):
            os.chmod(place, 0o555)


def _size(size_bytes: int) -> str:
    """Options of a tmpfs: its size, and as many files as would fill it with a page each."""
    return f"size={size_bytes},nr_inodes={size_bytes >> 12}"


def _mount_devices(shared_bytes: int, *, is_root: bool) -> None:
    kernel.mount("proc", "proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    kernel.mount("tmpfs", "dev", "tmpfs", kernel.NOSUID, "size=64k,mode=755")
    for name, (major, minor) in _DEVICES.items():
        if is_root:
            os.mknod(f"dev/{name}", stat.S_IFCHR, os.makedev(major, minor))
            os.chmod(f"dev/{name}", 0o666)
        else:  # nobody makes devices in a user namespace
            os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
            kernel.mount(f"/dev/{name}", f"dev/{name}", None, kernel.BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"dev/{name}")
    options = f"newinstance,ptmxmode=0666,mode=620,max={_TERMINALS_MAX}"
    kernel.mount("devpts", "dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, options)
    os.symlink("pts/ptmx", "dev/ptmx")
    os.symlink("/proc/self/fd", "dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"dev/{name}")
    flags = kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", "dev/shm", "tmpfs", flags, f"mode=1777,{_size(shared_bytes)}")


def _mount_runtime(temporary_bytes: int, runtime_bytes: int) -> None:
    flags = kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", "tmp", "tmpfs", flags, f"mode=1777,{_size(temporary_bytes)}")
    kernel.mount("tmpfs", "run", "tmpfs", flags, f"mode=755,{_size(runtime_bytes)}")
    os.mkdir("tmp/.X11-unix")
    os.chmod("tmp/.X11-unix", 0o1777)
    for name in ("user", "user/1000", "share", "share/fb", "share/log"):
        os.mkdir(f"run/{name}", 0o700 if name == "user/1000" else 0o755)
    for name in ("user/1000", "share", "share/fb", "share/log"):
        os.chown(f"run/{name}", USER_ID, USER_ID)
