"""What a host must have for desktops that are not the usual ones: a session, a server, a tree."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.lower import HOST, kind_of_image
from envs_node.actors.desktop.usermap import may_mount
from envs_node.actors.desktop.xorg import XORG
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.doctor import PROGRAMS, Check

_FOLDERS = ("usr/local/bin", "usr/bin", "bin", "usr/games")


def check_wishes(settings: DesktopSettings) -> tuple[Check, ...]:
    """Examine what these settings want beyond the defaults; nothing where they want nothing."""
    return tuple(_wishes(settings, settings.kind()))


def _wishes(settings: DesktopSettings, kind: DesktopKind) -> Iterator[Check]:
    if kind.lower != HOST:  # what is installed there is its own affair
        yield _lower(kind)
    elif kind.session == "gnome":
        yield _program("desktop.session", "gnome-shell", "gnome-shell")
    if kind.lower == HOST and kind.xserver == "xorg":
        yield _program("desktop.xserver", XORG, "xserver-xorg-core xserver-xorg-video-dummy")
    if kind.ocr:
        yield _program("desktop.ocr", "tesseract", "tesseract-ocr")
    if settings.record:
        yield _program("desktop.record", "ffmpeg", "ffmpeg")


def _program(name: str, program: str, packages: str) -> Check:
    return Check(
        name=name,
        ok=shutil.which(program) is not None,
        detail=f"needs {program}",
        mend=f"apt-get install {packages}",
    )


def _lower(wanted: DesktopKind) -> Check:
    name, mend, path = "desktop.lower", "see `envs-node image build`", wanted.lower
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            lacking = _lacking(wanted)
            lacks = ", ".join(f"{program} (package {PROGRAMS[program]})" for program in lacking)
            detail = f"{path} lacks {lacks}" if lacks else path
            return Check(name=name, ok=not lacks, detail=detail, mend=mend)
        kind = kind_of_image(path)
    except OSError as error:
        said = f"{path}: {error.strerror}" if error.strerror else str(error)
        return Check(name=name, ok=False, detail=said, mend=mend)
    detail = f"only root mounts an image such as {path}"
    return Check(
        name=name, ok=may_mount(), detail=detail, mend=f"unpack the {kind}, and name the folder"
    )


def _lacking(kind: DesktopKind) -> tuple[str, ...]:
    """Programs without which no desktop of this kind starts, and which its folder has not."""
    needed = ["dbus-daemon", "/usr/libexec/at-spi-bus-launcher", "/usr/bin/python3"]
    needed += ["Xvfb"] if kind.xserver == "xvfb" else []
    needed += ["openbox"] if kind.session == "openbox" else []
    return tuple(name for name in needed if not _has(kind.lower, name))


def _has(tree: str, program: str) -> bool:
    """Whether a folder has a program, by its path or where programs are looked for."""
    paths = (program[1:],) if program[0] == "/" else (f"{folder}/{program}" for folder in _FOLDERS)
    return any(os.path.lexists(os.path.join(tree, path)) for path in paths)
