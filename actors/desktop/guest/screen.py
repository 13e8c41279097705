"""The screen and the pointer, from the X server itself."""

from __future__ import annotations

import struct
import zlib
from contextlib import closing

from envs_node.actors.desktop.guest.answer import Download, Fields, failed
from envs_node.actors.desktop.guest.xclient import XClient

_X_SOCKET = "/tmp/.X11-unix/X0"


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
        return XClient(_X_SOCKET)
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
