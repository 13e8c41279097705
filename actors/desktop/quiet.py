"""How long a picture must stand still before it is believed, by who draws it.

Toolkits repaint at once, LibreOffice on timers of its own. The windows are measured
(`benchmarks/settling.py`, docs/results.md).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

CAP_MS = 3000


class Quiet(msgspec.Struct, frozen=True, kw_only=True):
    """How long the picture of some applications must stand still."""

    app_class: str = ""
    """The window class that asks for it; empty when nothing is open."""
    quiet_ms: int = 100
    cap_ms: int = CAP_MS
    """After this long the picture is taken as it is."""
    is_shy: bool = False
    """Whether its clocks stand still while it is asked what it shows: that time does not count."""


QUIET_MS = {
    "mousepad": 100, "gedit": 100, "thunar": 650, "xterm": 100, "galculator": 100, "eog": 300,
    "gnome-text-editor": 150, "gimp": 150, "vlc": 100, "mail": 150, "thunderbird": 150,
    "chromium": 400, "google-chrome": 400, "libreoffice-impress": 1000, "libreoffice": 650,
    "soffice": 650,
}  # fmt: skip
"""By the beginning of a window's class. Who is not listed has not been measured. Chromium's picture
rests after 250 ms; what it tells of itself comes later, and is read before the window ends. Thunar
shows what became of a file when it is told of it, half a second after. Impress blinks each half
second for ever, and its clocks stand still while it is asked what it shows."""
_SHY = ("libreoffice-impress",)
QUIET_UNKNOWN_MS = 650
"""For applications that nobody has measured: as long as the slowest."""
MENU_MS = 300
"""GTK opens what lies below a menu's item 225 ms after the item is chosen, and no setting tells it
not to."""
_CAPS_MS = {"libreoffice-impress": 6000, "libreoffice": 4000, "soffice": 4000}


def quiet_window(app_classes: Iterable[str], *, has_menu: bool = False) -> Quiet:
    """The longest window that any of these window classes asks for, or that an open menu does."""
    quiets = [_quiet_of(words) for words in app_classes]
    if has_menu:
        quiets.append(Quiet(app_class="an open menu", quiet_ms=MENU_MS))
    return max(quiets, key=lambda quiet: quiet.quiet_ms, default=Quiet())


def _quiet_of(app_class: str) -> Quiet:
    """The window of one class, as `WM_CLASS` words it: instance and class."""
    words = app_class.lower().split()
    for name, quiet_ms in QUIET_MS.items():
        if any(word.startswith(name) for word in words):
            cap_ms = _CAPS_MS.get(name, CAP_MS)
            return Quiet(app_class=name, quiet_ms=quiet_ms, cap_ms=cap_ms, is_shy=name in _SHY)
    return Quiet(app_class=app_class, quiet_ms=QUIET_UNKNOWN_MS)
