"""What a desktop stands on: the host's own file tree, a folder, or an image file.

Runs in the launcher's process and in the first process of a desktop. Standard library alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass

from envs_node.actors.desktop import kernel

HOST = "/"
_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var")
_PRIVATE = ("home", "opt", "root", "var/tmp", "var/log", "var/spool", "var/mail", "var/backups",
            "var/www", "etc/ssl/private")  # fmt: skip
_COVERED = ("dev", "proc", "run", "sys", "tmp")
_MAGIC = {"squashfs": (0, b"hsqs"), "erofs": (1024, b"\xe2\xe1\xf5\xe0")}
_UNPACK = {
    "squashfs": "unsquashfs -d FOLDER {path}",
    "erofs": "fsck.erofs --extract=FOLDER {path}",
}
_LOOP_CONTROL = "/dev/loop-control"
_LOOP_GET_FREE, _LOOP_CONFIGURE = 0x4C82, 0x4C0A
_LOOP_READ_ONLY_AND_AUTOCLEAR = 1 | 4
_LOOP_CONFIG = "=II52xI176x64x"  # linux/loop.h: file, block size, loop_info64 with its flags
_TRIES = 16


@dataclass(frozen=True, kw_only=True)
class Lower:
    """A file tree to stand on, as the first process of a desktop sees it."""

    folder: str
    """Where it is; `""` for the root."""
    names: tuple[str, ...]
    """Those of its entries that a desktop sees."""
    hidden: tuple[str, ...]
    """Folders that are empty in every desktop, whatever they hold here."""
    absent: tuple[str, ...]
    """Those of its entries that no desktop sees."""


class Images:
    """The image files that desktops stand on, each attached to one block device.

    Desktops that mount the same device share what of it is in memory. A device is detached by the
    kernel once this process and every desktop on it are gone.
    """

    def __init__(self, *, is_root: bool) -> None:
        self._is_root = is_root
        self._devices: dict[tuple[str, int, int], int] = {}

    def attach(self, path: str) -> str:
        """The device of an image; `""` for what is no image but a folder.

        Raises:
            OSError: there is no such thing, it is neither, or this is not root.
        """
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return ""
        kind = kind_of_image(path)
        if not self._is_root:
            unpack = _UNPACK[kind].format(path=path)
            raise OSError(f"only root may mount the image {path}: name a folder instead ({unpack})")
        key = (path, found.st_ino, found.st_mtime_ns)
        if key not in self._devices:
            self._devices[key] = _attach(path)
        return os.readlink(f"/proc/self/fd/{self._devices[key]}")


def open_lower(path: str) -> Lower:
    """Take hold of a folder before something is mounted over where it may lie."""
    if path == HOST:
        names = sorted(os.listdir(HOST))
        kept = tuple(name for name in names if name in _PROGRAMS)
        hidden = (*_COVERED, *_PRIVATE)
        absent = tuple(name for name in names if name not in (*_PROGRAMS, *hidden))
        return Lower(folder="", names=kept, hidden=hidden, absent=absent)
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return _own_tree(f"/proc/self/fd/{handle}")


def mount_image(device: str, folder: str) -> Lower:
    """Mount an image's device, to be read only."""
    kernel.mount(device, folder, kind_of_image(device), kernel.READONLY | kernel.NODEV)
    return _own_tree(folder)


def kind_of_image(path: str) -> str:
    """The file system in a file or on a device.

    Raises:
        OSError: none that a desktop can stand on.
    """
    with open(path, "rb") as source:
        head = source.read(2048)
    for kind, (offset, magic) in _MAGIC.items():
        if head[offset : offset + len(magic)] == magic:
            return kind
    raise OSError(f"{path} is neither a folder nor an image (squashfs, erofs)")


def _own_tree(folder: str) -> Lower:
    """A tree that was made for desktops has no secrets, so all of it shows."""
    hidden = (*_COVERED, "home")
    names = tuple(name for name in sorted(os.listdir(folder)) if name not in hidden)
    return Lower(folder=folder, names=names, hidden=hidden, absent=())


def _attach(path: str) -> int:
    """A descriptor of the loop device that a file was attached to."""
    image = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    control = os.open(_LOOP_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):  # between the question and the claim, others may claim it
            number = fcntl.ioctl(control, _LOOP_GET_FREE)
            device = os.open(f"/dev/loop{number}", os.O_RDONLY | os.O_CLOEXEC)
            config = struct.pack(_LOOP_CONFIG, image, 0, _LOOP_READ_ONLY_AND_AUTOCLEAR)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device
    finally:
        os.close(control)
        os.close(image)
    raise OSError(f"no free loop device for {path}")
