"""What one look at a machine asks of its shell: its windows, the active one, its working files.

The command is a constant; nothing that anybody says is ever put into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.remote.guest import RemoteGuest
from envs_node.actors.desktop.xserver import Window

_FILES = (
    "cd && { find . -xdev -name '.?*' -prune -o -print0; "
    "find . -xdev -name '.?*' -prune -o -type f -size -131072 "
    + "".join(f"! -iname '*.{kind}' " for kind in ("docx", "odp", "ods", "odt", "pptx", "xlsx"))
    + "-print0 | sort -z | head -z -n 10000 | xargs -0r sha256sum; } | sort -z | sha256sum"
)
"""Names of all visible files below the home, and the content of those that are no office document:
such a one says when it was saved, and would differ every time."""
_COMMAND = f"({_FILES}) 2>/dev/null; xprop -root _NET_ACTIVE_WINDOW 2>&1 | head -n 1; wmctrl -lxG"
_ACTIVE = re.compile(r"window id # (0x[0-9a-f]+)")
_LINE = re.compile(
    r"(0x[0-9a-f]{1,16}) +(-?\d{1,6}) +(-?\d{1,6}) +(-?\d{1,6}) +(\d{1,6}) +(\d{1,6}) +"
    r"(\S+) +(\S+) ?(.*)"
)
_WINDOWS_MAX = 128
_TITLE_CHARACTERS_MAX = 1000


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What is there besides the picture."""

    windows: tuple[Window, ...]
    """In the order they were opened: wmctrl knows no other."""
    focused: int
    files: str


def look_around(guest: RemoteGuest) -> Surroundings:
    """Ask the machine.

    Raises:
        DesktopLostError: it does not answer, or lacks wmctrl.
    """
    answer = guest.ask("/execute", {"command": _COMMAND, "shell": True})
    if answer.get("returncode") != 0:
        said = str(answer.get("error", ""))[-200:].strip()
        raise DesktopLostError(f"{guest.address} does not list its windows: {said}")
    return read_surroundings(str(answer.get("output", "")))


def read_surroundings(output: str) -> Surroundings:
    """Understand what the command printed. The first two lines are its own, no title's."""
    files, active, *lines = [*output.split("\n"), "", ""]
    focus = _ACTIVE.search(active)
    return Surroundings(
        windows=_windows(lines),
        focused=int(focus[1], 16) if focus else 0,
        files=files.split(" ")[0],
    )


def _windows(lines: Sequence[str]) -> tuple[Window, ...]:
    found = [line for line in map(_LINE.fullmatch, lines) if line]
    return tuple(
        Window(
            id=int(line[1], 16), title=line[9][:_TITLE_CHARACTERS_MAX],
            app_class=line[7].replace(".", " ", 1)[:_TITLE_CHARACTERS_MAX],
            x=int(line[3]), y=int(line[4]), width=int(line[5]), height=int(line[6]),
            is_hidden=False,
        )
        for line in found[-_WINDOWS_MAX:]
    )  # fmt: skip
