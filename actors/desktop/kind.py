"""What kind of desktop: its screen, its session, what lies below it and how much it may take."""

from __future__ import annotations

from typing import Literal

import msgspec

SessionName = Literal["openbox", "gnome"]
XServerName = Literal["xvfb", "xorg"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one desktop may take of its host."""

    memory_bytes: int = 2 << 30
    """Of all its programs, and of what they write: its files lie in memory."""
    disk_bytes: int = 1 << 30
    """Written to its file tree."""
    processes_max: int = 1024
    """Threads count."""
    cpus: float = 0.0
    """Processors' worth of time; 0 for no limit."""


class DesktopKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The desktops of one node are of one kind."""

    width: int = 1280
    """Of the screen, in pixels."""
    height: int = 720
    session: SessionName = "openbox"
    xserver: XServerName = "xvfb"
    lower: str = "/"
    """The file tree it stands on: the host's own, or a folder or image that was built for it."""
    limits: Limits = Limits()
    ocr: bool = False
    """Whether text is read off the picture where a window says nothing of itself."""
    filters_calls: bool = True
    """Whether the kernel refuses its programs the system calls that reach beyond it."""
    allowed_hosts: tuple[str, ...] = ()
    """What it may reach over HTTP, through a proxy of the host's; else nothing but itself."""

    def __post_init__(self) -> None:
        if not (320 <= self.width <= 7680 and 240 <= self.height <= 4320):
            size = f"{self.width}x{self.height}"
            raise ValueError(f"a screen of {size}: 320x240 to 7680x4320 px are possible")
