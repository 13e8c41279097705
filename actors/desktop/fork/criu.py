"""CRIU's command lines, and with what rights it runs here. Stdlib only."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from envs_node.actors.desktop import kernel

_ROOT_KEY, _NET_KEY = "root", "net"
_OWN_KINDS = ("proc", "tmpfs", "devpts")
"""Mounts that CRIU makes anew, and fills; all others are laid out before it comes."""
_COMMON = (
    "--manage-cgroups=ignore", "--ext-unix-sk", "--tcp-close", "--file-locks",
    "--network-lock", "skip",
)  # fmt: skip
_CAP_SYS_RESOURCE = 24
_KEEP_CAPS, _AMBIENT, _AMBIENT_RAISE = 8, 47, 2
_CAPSET_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
_libc = ctypes.CDLL(None, use_errno=True)


def dump_command(
    criu: Sequence[str], pid: int, images: int, net: int, mounts: Sequence[str], *, log: str
) -> list[str]:
    """Write a desktop's memory out while it goes on.

    Args:
        criu: how CRIU itself is called.
        pid: the desktop's first process.
        images: descriptor of the folder for the images.
        net: inode of its network namespace, which stays outside the images.
        mounts: places in it whose mounts do so, too.
    """
    outer = [word for place in mounts for word in ("--external", f"mnt[{place}]:{place}")]
    return [
        *criu, *([] if may_raise_limits() else ["--unprivileged"]), "dump",
        "--tree", str(pid), "--images-dir", f"/proc/self/fd/{images}", "--leave-running",
        "--external", f"mnt[/]:{_ROOT_KEY}", *outer, "--external", f"net[{net}]:{_NET_KEY}",
        "--ghost-limit", "64M", "--link-remap", *_COMMON, "-v2", "--log-file", log,
    ]  # fmt: skip


def restore_command(
    criu: Sequence[str], images: int, net: int, mounts: Sequence[str], *, root: str, log: str
) -> list[str]:
    """Bring a desktop back from its images, beside whatever else came from them.

    Args:
        images: descriptor of the folder with the images.
        net: descriptor of the network namespace it goes into.
        mounts: places in it that were mounted before.
        root: mount point of its file tree.
    """
    outer = [word for place in mounts for word in ("--external", f"mnt[{place}]:{root}{place}")]
    return [
        *criu, "restore", "--images-dir", f"/proc/self/fd/{images}", "--root", root,
        "--external", f"mnt[{_ROOT_KEY}]:{root}", *outer, "--inherit-fd", f"fd[{net}]:{_NET_KEY}",
        "--restore-detached", "--restore-sibling", *_COMMON, "-v2", "--log-file", log,
    ]  # fmt: skip


def outer_mounts(pid: int) -> list[str]:
    """Where a desktop has file systems, beside its root, that are no work of CRIU's."""
    places = []
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as source:
        for line in source:
            before, _, after = line.partition(" - ")
            place, kind = before.split()[4], after.split()[0]
            if place != "/" and kind not in _OWN_KINDS:
                places.append(place)
    return places


def by_handle(criu: Sequence[str]) -> tuple[list[str], list[int]]:
    """The same command by descriptors, which hold when its folders are covered; and these."""
    folders: dict[str, int] = {}

    def held(path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{folders[folder]}/{name}"

    words = []
    for word in criu:
        paths = word.split(":")
        is_path = all(path.startswith("/") for path in paths)
        words.append(":".join(map(held, paths)) if is_path else word)
    return words, list(folders.values())


def may_raise_limits() -> bool:
    """Whether this process may set other users' resource limits, which a dump as root does."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return False


def become_with_rights(user_id: int) -> None:
    """Become a user, and keep every capability, also over the next exec."""
    permitted = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm:"):
            permitted = int(line.split()[1], 16)
    kernel.control(_KEEP_CAPS, 1)
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    header = struct.pack("Ii", _CAPSET_VERSION_3, 0)
    data = struct.pack("6I", low, low, low, high, high, high)
    if _libc.syscall(_CAPSET[os.uname().machine], header, data):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
    for capability in range(64):
        if permitted >> capability & 1:
            _libc.prctl(_AMBIENT, _AMBIENT_RAISE, capability, 0, 0)
    kernel.control(4, 1)  # dumpable again, which the change of user had taken away
