"""The applications of desktops: how each is started, and which windows it may show."""

from __future__ import annotations

import msgspec

from envs_node.messages.actions import Action, Key, Type


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """One application, and one action that it must survive without a window of a stranger."""

    argv: tuple[str, ...]
    windows: tuple[str, ...]
    """Titles after its start."""
    act: Action
    after: tuple[str, ...] = ()
    """Titles that the action may bring, beside those of the start."""
    files: dict[str, bytes] = msgspec.field(default_factory=dict)

    @property
    def known(self) -> tuple[str, ...]:
        """All titles that may be seen."""
        return self.windows + self.after


_OFFICE = ("libreoffice",)
APPLICATIONS = {
    "mousepad": Application(
        argv=("mousepad",), windows=("Untitled 1 - Mousepad",), act=Type(text="x"),
        after=("*Untitled 1 - Mousepad",),
    ),
    "gedit": Application(
        argv=("gedit",), windows=("Untitled Document 1 - gedit",), act=Type(text="x"),
        after=("*Untitled Document 1 - gedit",),
    ),
    "thunar": Application(
        argv=("thunar",), windows=("user - Thunar",), act=Key(keys=("ctrl", "h"))
    ),
    "xterm": Application(argv=("xterm",), windows=("xterm",), act=Type(text="ls /\n")),
    "galculator": Application(
        argv=("galculator",), windows=("galculator",), act=Type(text="12")
    ),
    "eog": Application(
        argv=("eog",), windows=("Image Viewer",), act=Key(keys=("f10",))
    ),
    "calc": Application(
        argv=(*_OFFICE, "--calc"), windows=("Untitled 1 - LibreOffice Calc",),
        act=Type(text="7\n"),
    ),
    "writer": Application(
        argv=(*_OFFICE, "--writer"), windows=("Untitled 1 - LibreOffice Writer",),
        act=Type(text="x"),
    ),
    "impress": Application(
        argv=(*_OFFICE, "--impress"), windows=("Untitled 1 - LibreOffice Impress",),
        act=Key(keys=("f10",)),
    ),
    "gimp": Application(
        argv=("gimp",), windows=("GNU Image Manipulation Program",), act=Key(keys=("ctrl", "n")),
        after=("Create a New Image",),
    ),
    "vlc": Application(
        argv=("vlc", "--no-audio", "--no-video-title-show"), windows=("VLC media player",),
        act=Key(keys=("ctrl", "o")), after=("Select one or more files to open",),
    ),
    "thunderbird": Application(
        argv=("/usr/bin/thunderbird",), windows=("Home - Mozilla Thunderbird",),
        act=Key(keys=("alt", "f")),
    ),
    "chrome": Application(
        argv=("google-chrome", "--remote-debugging-port=1337"), windows=("New Tab - Chromium",),
        act=Type(text="chrome://history\n"), after=("History - Chromium",),
    ),
}  # fmt: skip
