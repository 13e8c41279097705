"""Windows, by wmctrl."""

from __future__ import annotations

import re
import subprocess
import time
from typing import NamedTuple

from envs_node.actors.desktop.guest.answer import Fields, RefusedError, failed, text_of

_TIMEOUT_S = 10.0
_TRIES = 5
"""So often windows are listed anew when one went while wmctrl read of it, which ends that then."""
_PAUSE_S = 0.2
_TITLE = re.compile(r"(0x[0-9a-f]+) +-?\d+ +\S+ ?(.*)")
_LINE = re.compile(r"(0x[0-9a-f]+) +-?\d+ +(-?\d+) +(-?\d+) +(\d+) +(\d+) +(.*)")


class Window(NamedTuple):
    """A window as wmctrl lists it."""

    id: str
    width: int
    height: int
    rest: str
    """Class, host and title, parted by blanks that the class and the title may hold, too."""
    title: str


def listed() -> list[Window]:
    """The windows, oldest first."""
    named = [_TITLE.match(line) for line in _lines(["wmctrl", "-l"])]
    titles = {m[1]: m[2] for m in named if m}
    found = [_LINE.match(line) for line in _lines(["wmctrl", "-lxG"])]
    return [Window(m[1], int(m[4]), int(m[5]), m[6], titles.get(m[1], "")) for m in found if m]


def activate(window_id: str) -> None:
    """Bring a window to the front, if it is still there."""
    _run(["wmctrl", "-i", "-a", window_id])


def window_size(form: Fields) -> Fields:
    """Size of the first window of a class, in px."""
    wanted = text_of(form, "app_class_name", "app_class_name is required").lower()
    for window in listed():
        if wanted in window.rest.split(" ")[0].lower().split("."):
            return {"width": window.width, "height": window.height}
    raise RefusedError(500, {"error": f"no window of class {wanted}"})


def activate_window(request: Fields) -> str:
    """Bring a window to the front."""
    return _wmctrl("-a", request, "activated")


def close_window(request: Fields) -> str:
    """Ask a window to close."""
    return _wmctrl("-c", request, "closed")


def _wmctrl(verb: str, request: Fields, done: str) -> str:
    name = text_of(request, "window_name", "window_name required")
    flags = ("x" if request.get("by_class") else "") + ("F" if request.get("strict") else "")
    argv = ["wmctrl", *(["-" + flags] if flags else []), verb, name]
    try:
        result = _run(argv)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise failed(error) from error
    if result.returncode:
        raise RefusedError(404, {"error": f"window {name} is not found"})
    return f"Window {name} {done} successfully"


def _lines(argv: list[str]) -> list[str]:
    try:
        done = _run(argv, is_retried=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise failed(error) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise failed(f"{' '.join(argv)} ended with {done.returncode}: {said[:300]}")
    return done.stdout.decode(errors="replace").splitlines()


def _run(argv: list[str], *, is_retried: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run wmctrl, and again when a window went meanwhile; with `is_retried` after any failure."""
    for _ in range(_TRIES):
        done = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S)
        if b"BadWindow" in done.stderr:
            continue
        if not (is_retried and done.returncode):
            break
        time.sleep(_PAUSE_S)  # the window manager may be about to write its list
    return done
