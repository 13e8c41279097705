"""Windows and the pointer, by wmctrl and the X server itself."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from contextlib import closing
from typing import NamedTuple

from envs_node.actors.desktop.guest.answer import Download, Fields, RefusedError, failed, text_of
from envs_node.actors.desktop.guest.xclient import XClient

X_SOCKET = "/tmp/.X11-unix/X0"
_TIMEOUT_S = 10.0
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
    subprocess.run(["wmctrl", "-i", "-a", window_id], capture_output=True, timeout=_TIMEOUT_S)


def screen_size(_request: Fields) -> Fields:
    """Size of the screen, in px."""
    with closing(_client()) as client:
        return {"width": client.width, "height": client.height}


def cursor_position(_request: Fields) -> list[int]:
    """Where the pointer is, in px from the top left corner."""
    with closing(_client()) as client:
        try:
            return list(client.pointer())
        except OSError as error:
            raise failed(error) from error


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


def screenshot(_request: Fields) -> Download:
    """The screen as PNG, from the X server itself, with the pointer drawn as an arrow."""
    with closing(_client()) as client:
        try:
            client.take()
            x, y = client.pointer()
        except OSError as error:
            raise failed(error) from error
        data, width, height = bytearray(client.pixels or b""), client.width, client.height
    _draw_pointer(data, width, height, x, y)
    return Download(_png(data, width, height), "image/png")


def _client() -> XClient:
    try:
        return XClient(X_SOCKET)
    except OSError as error:
        raise failed(error) from error


def _draw_pointer(data: bytearray, width: int, height: int, x: int, y: int) -> None:
    """Lay an arrow over BGRX pixels: a black triangle with a white edge, its tip at the point."""
    for row in range(17):
        reach = min(row, 11) if row < 12 else 16 - row
        for column in range(reach + 1):
            left, top = x + column, y + row
            if left < width and top < height:
                is_edge = column in (0, reach) or row == 11
                at = 4 * (top * width + left)
                data[at : at + 3] = b"\xff\xff\xff" if is_edge else b"\0\0\0"


def _png(data: bytearray, width: int, height: int) -> bytes:
    rows = bytearray()
    for top in range(0, len(data), 4 * width):
        line = data[top : top + 4 * width]
        pixels = bytearray(3 * width)
        pixels[0::3], pixels[1::3], pixels[2::3] = line[2::4], line[1::4], line[0::4]
        rows += b"\0" + pixels  # filter type none
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _wmctrl(verb: str, request: Fields, done: str) -> str:
    name = text_of(request, "window_name", "window_name required")
    flags = ("x" if request.get("by_class") else "") + ("F" if request.get("strict") else "")
    argv = ["wmctrl", *(["-" + flags] if flags else []), verb, name]
    try:
        result = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise failed(error) from error
    if result.returncode:
        raise RefusedError(404, {"error": f"window {name} is not found"})
    return f"Window {name} {done} successfully"


def _lines(argv: list[str]) -> list[str]:
    try:
        done = subprocess.run(argv, capture_output=True, check=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise failed(error) from error
    return done.stdout.decode(errors="replace").splitlines()
