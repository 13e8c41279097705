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
from envs_node.deploy.doctor import Check


def check_wishes(settings: DesktopSettings) -> tuple[Check, ...]:
    """Examine what these settings want beyond the defaults; nothing where they want nothing."""
    return tuple(_wishes(settings, settings.kind()))


def _wishes(settings: DesktopSettings, kind: DesktopKind) -> Iterator[Check]:
    if kind.lower != HOST:  # what is installed there is its own affair
        yield _lower(kind.lower)
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


def _lower(path: str) -> Check:
    name, mend = "desktop.lower", "see `envs-node image build`"
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return Check(name=name, ok=True, detail=path)
        kind = kind_of_image(path)
    except OSError as error:
        said = f"{path}: {error.strerror}" if error.strerror else str(error)
        return Check(name=name, ok=False, detail=said, mend=mend)
    detail = f"only root mounts an image such as {path}"
    return Check(
        name=name, ok=may_mount(), detail=detail, mend=f"unpack the {kind}, and name the folder"
    )
