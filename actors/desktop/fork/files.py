"""Copies what a desktop has written: every kind of file, and what the overlay notes on them."""

from __future__ import annotations

import os
import shutil
import stat

_BOUND = frozenset({"trusted.overlay.origin", "trusted.overlay.uuid", "trusted.overlay.nlink"})
"""Notes that point at the very file systems a desktop stands on: a clone has others."""


def copy_written(source: str, target: str) -> None:
    """Copy the content of an overlay's upper layer into an empty folder."""
    _copy_notes(source, target)
    links: dict[int, str] = {}
    for entry in os.scandir(source):
        _copy(entry, f"{target}/{entry.name}", links)


def _copy(entry: os.DirEntry[str], target: str, links: dict[int, str]) -> None:
    found = entry.stat(follow_symlinks=False)
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        if found.st_ino in links:
            os.link(links[found.st_ino], target, follow_symlinks=False)
            return
        links[found.st_ino] = target
    if stat.S_ISDIR(found.st_mode):
        os.mkdir(target)
        for inner in os.scandir(entry.path):
            _copy(inner, f"{target}/{inner.name}", links)
    elif stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(entry.path), target)
    elif stat.S_ISREG(found.st_mode):
        shutil.copyfile(entry.path, target)
    else:  # a whiteout, a pipe, a socket
        os.mknod(target, found.st_mode, found.st_rdev)
    _copy_notes(entry.path, target)


def _copy_notes(source: str, target: str) -> None:
    found = os.lstat(source)
    os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    for name in os.listxattr(source, follow_symlinks=False):
        if name not in _BOUND:
            value = os.getxattr(source, name, follow_symlinks=False)
            os.setxattr(target, name, value, follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(target, stat.S_IMODE(found.st_mode))
    times = (found.st_atime_ns, found.st_mtime_ns)
    os.utime(target, ns=times, follow_symlinks=False)
