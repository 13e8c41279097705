"""The screen and its windows, by wmctrl and xdpyinfo."""

from __future__ import annotations

import struct
import subprocess
import zlib
from contextlib import closing
from xml.sax.saxutils import quoteattr

from envs_node.actors.desktop.guest.answer import Fields, RefusedError
from envs_node.actors.desktop.guest.xclient import XClient

X_SOCKET = "/tmp/.X11-unix/X0"


def screen_size(_request: Fields) -> Fields:
    """Size of the screen, in px."""
    for line in _output(["xdpyinfo"]).splitlines():
        if "dimensions:" in line:
            width, height = line.split()[1].split("x")
            return {"width": int(width), "height": int(height)}
    raise RefusedError(500, {"status": "error", "message": "xdpyinfo names no dimensions"})


def window_size(form: Fields) -> Fields:
    """Size of the first window of a class, in px."""
    wanted = form.get("app_class_name")
    if not wanted:
        raise RefusedError(400, {"error": "app_class_name is required"})
    for line in _output(["wmctrl", "-lxG"]).splitlines():
        parts = line.split(None, 8)
        if len(parts) > 6 and wanted.lower() in parts[6].lower().split("."):
            return {"width": int(parts[4]), "height": int(parts[5])}
    raise RefusedError(500, {"error": f"no window of class {wanted}"})


def activate_window(request: Fields) -> str:
    """Bring a window to the front."""
    return _wmctrl("-a", request, "activated")


def close_window(request: Fields) -> str:
    """Ask a window to close."""
    return _wmctrl("-c", request, "closed")


def _wmctrl(verb: str, request: Fields, done: str) -> str:
    name = request.get("window_name")
    if not name:
        raise RefusedError(400, {"error": "window_name required"})
    flags = ("x" if request.get("by_class") else "") + ("F" if request.get("strict") else "")
    result = subprocess.run(
        ["wmctrl", *(["-" + flags] if flags else []), verb, name], capture_output=True
    )
    if result.returncode:
        raise RefusedError(404, {"error": f"window {name} is not found"})
    return f"Window {name} {done} successfully"


def screenshot(_request: Fields) -> bytes:
    """The screen as PNG, from the X server itself. The pointer is not drawn."""
    try:
        with closing(XClient(X_SOCKET)) as client:
            client.take()
            data, width, height = bytes(client.pixels or b""), client.width, client.height
    except OSError as error:
        raise RefusedError(500, {"status": "error", "message": str(error)}) from error
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


def accessibility(_request: Fields) -> Fields:
    """The windows as a flat tree; elements are read from outside this desktop."""
    titles = [line.split(None, 3)[-1] for line in _output(["wmctrl", "-l"]).splitlines()]
    windows = "".join(f"<frame name={quoteattr(title)}/>" for title in titles)
    return {"AT": f'<desktop-frame name="main">{windows}</desktop-frame>'}


def _output(argv: list[str]) -> str:
    return _run(argv).decode(errors="replace")


def _run(argv: list[str]) -> bytes:
    try:
        return subprocess.run(argv, capture_output=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise RefusedError(500, {"status": "error", "message": str(error)}) from error
