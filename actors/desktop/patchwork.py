"""The root of a desktop without root: many overlays side by side, where root needs but one.

Whoever is not root may not lay anything over a folder that others have mounted something below:
its mounts might hide what they cover for a reason. `/` always has such mounts, so each of its
folders gets an overlay of its own; and where one of those has some, each of *its* folders.
Runs in the first process of a desktop. Standard library alone.
"""

from __future__ import annotations

import os
import shutil
import stat

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.lower import Lower

_COPIED_BYTES_MAX = 1 << 20


def mount_points() -> frozenset[str]:
    """Every folder and file that something is mounted on."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as source:
        return frozenset(_unescape(line.split()[4]) for line in source)


class Patchwork:
    """Lays overlays side by side on a stage. `layer` of the stage lies above what is below."""

    def __init__(self, stage: str, lower: Lower, options: str) -> None:
        """Take what is to be laid out.

        Args:
            stage: has the folders `root`, `layer`, `upper` and `work`.
            options: of every overlay, beside its folders.
        """
        self._stage, self._lower, self._options = stage, lower, options
        self._overlays: list[str] = []
        self._mounts = mount_points() if not lower.folder else frozenset[str]()

    def lay_root(self) -> None:
        """Put a whole root into `root`, and make it a mount, which alone can become the root."""
        for name in self._lower.names:
            self._lay(name)
        for name in sorted(os.listdir(f"{self._stage}/layer")):
            if name not in self._lower.names:
                os.rename(f"{self._stage}/layer/{name}", f"{self._stage}/root/{name}")
        kernel.mount(f"{self._stage}/root", f"{self._stage}/root", None, kernel.BIND)
        for place in self._overlays:
            self._lay_overlay(place)
        for place in self._lower.hidden:
            empty, target = f"{self._stage}/empty/{place}", f"{self._stage}/root/{place}"
            if "/" in place and os.path.isdir(target):
                os.makedirs(empty)
                kernel.mount(empty, target, None, kernel.BIND)

    def mend(self) -> None:
        """Lay into a `root` that is one overlay what that does not see: mounts of their own."""
        for name in self._lower.names:
            if f"/{name}" in self._mounts:
                self._lay_overlay(name)

    def _lay(self, place: str) -> None:
        source, target = f"{self._lower.folder}/{place}", f"{self._stage}/root/{place}"
        if place in self._lower.hidden:
            os.makedirs(target, exist_ok=True)
        elif os.path.islink(source):
            if not os.path.lexists(target):
                os.symlink(os.readlink(source), target)
        elif not os.path.isdir(source):
            self._copy(source, target)
        elif any(point.startswith(f"/{place}/") for point in self._mounts):
            self._lay_apart(place)
        else:
            os.makedirs(target, exist_ok=True)
            self._overlays.append(place)

    def _lay_apart(self, place: str) -> None:
        """Lay each entry of a folder by itself."""
        layer, target = f"{self._stage}/layer/{place}", f"{self._stage}/root/{place}"
        os.makedirs(target, exist_ok=True)
        if os.path.isdir(layer):
            for name in os.listdir(layer):
                if not os.path.isdir(f"{layer}/{name}"):
                    os.rename(f"{layer}/{name}", f"{target}/{name}")
        for name in _names(f"{self._lower.folder}/{place}"):
            self._lay(f"{place}/{name}")
        for name in _names(layer):
            if not os.path.lexists(f"{target}/{name}"):
                os.rename(f"{layer}/{name}", f"{target}/{name}")

    def _lay_overlay(self, place: str) -> None:
        upper, work = (
            f"{self._stage}/upper/{place}",
            f"{self._stage}/work/{place.replace('/', '+')}",
        )
        layer = f"{self._stage}/layer/{place}"
        for folder in (upper, work, layer):
            os.makedirs(folder, exist_ok=True)
        os.chmod(upper, 0o555)  # the mode that shows; the user may own it
        options = f"lowerdir={layer}:{self._lower.folder}/{place},upperdir={upper},workdir={work}"
        target = f"{self._stage}/root/{place}"
        kernel.mount("overlay", target, "overlay", 0, f"{self._options},{options}")

    def _copy(self, source: str, target: str) -> None:
        """Copy a small file that its owner lets us read; what is more is not for desktops."""
        if os.path.lexists(target) or not os.access(source, os.R_OK):
            return
        found = os.stat(source)
        if stat.S_ISREG(found.st_mode) and found.st_size <= _COPIED_BYTES_MAX:
            shutil.copyfile(source, target)
            shutil.copymode(source, target)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # it is not there, or not for us
        return []


def _unescape(text: str) -> str:
    """The kernel writes blanks and backslashes of a path in octal."""
    pieces = text.split("\\")
    return pieces[0] + "".join(chr(int(piece[:3], 8)) + piece[3:] for piece in pieces[1:])
