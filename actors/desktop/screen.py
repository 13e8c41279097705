"""The screen: Xvfb's frame buffer, read from its file, hashed and packed."""

from __future__ import annotations

import os
import struct
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray
from PIL import Image

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.messages.base import WIRE_BYTES_MAX

Pixels: TypeAlias = NDArray[np.uint8]
TILE_PX = 80
PNG_BYTES_MAX = WIRE_BYTES_MAX - 64 * 1024
_HEADER_WORDS = 25
_COLOUR_BYTES = 12


class Screen:
    """The picture of one X server. Reading it asks nobody: the server draws into that file.

    The file is the desktop's own, which may cut it off at any time. A mapping of it would then
    kill this process, and every desktop of the node with it; a read only comes back short. Call
    from one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        """Open the frame buffer.

        Raises:
            DesktopLostError: the file is none.
        """
        self._handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        head = os.read(self._handle, 4 * _HEADER_WORDS)
        # XWD: header size, width, height, bytes a line and number of colours (X11/XWDFile.h).
        words = struct.unpack(f">{_HEADER_WORDS}I", head.ljust(4 * _HEADER_WORDS, b"\0"))
        self._offset = words[0] + words[19] * _COLOUR_BYTES
        self.width, self.height, line_bytes = words[4], words[5], words[12]
        size_bytes = os.fstat(self._handle).st_size
        if words[11] != 32 or size_bytes < self._offset + line_bytes * self.height:
            os.close(self._handle)
            raise DesktopLostError(f"{path} is no frame buffer of 32-bit pixels")
        self._buffer = bytearray(line_bytes * self.height)
        flat = np.frombuffer(self._buffer, np.uint8)
        self._pixels = flat.reshape(self.height, line_bytes // 4, 4)[:, : self.width]
        self._pixels.flags.writeable = False

    def grab(self) -> Pixels:
        """The picture as it is now, until this screen is next read.  # (height, width, 4) BGRX

        Raises:
            DesktopLostError: the frame buffer was cut off.
        """
        self._read()
        return self._pixels

    def digest(self) -> str:
        """Hash the picture as it is now.

        Raises:
            DesktopLostError: the frame buffer was cut off.
        """
        self._read()
        return frame_digest(self._pixels)

    def close(self) -> None:
        """Let the file go. Whoever still reads gets an error, and nobody else's file."""
        handle, self._handle = self._handle, -1
        os.close(handle)

    def _read(self) -> None:
        if os.preadv(self._handle, [self._buffer], self._offset) < len(self._buffer):
            raise DesktopLostError("the desktop has cut off its frame buffer")


def frame_digest(pixels: Pixels) -> str:
    """xxh3-128 of the pixels, hex."""
    return xxhash.xxh3_128_hexdigest(np.ascontiguousarray(pixels).data)


def tile_digests(pixels: Pixels) -> tuple[bytes, int]:
    """4 bytes a tile of 80 px, row by row, and the number of columns."""
    height, width = pixels.shape[:2]
    parts = [
        xxhash.xxh3_64_digest(
            np.ascontiguousarray(pixels[top : top + TILE_PX, left : left + TILE_PX]).data
        )[:4]
        for top in range(0, height, TILE_PX)
        for left in range(0, width, TILE_PX)
    ]
    return b"".join(parts), -(-width // TILE_PX)


def pack_frame(pixels: Pixels) -> bytes:
    """Compress the rows of BGRX pixels with zstd."""
    return zstandard.ZstdCompressor(level=1).compress(np.ascontiguousarray(pixels).data)


def png_of_frame(packed: bytes, width: int, height: int) -> bytes | None:
    """Turn a packed frame into a PNG; None when that is too large to be sent."""
    data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=width * height * 4)
    image = Image.frombuffer("RGB", (width, height), data, "raw", "BGRX", 0, 1)
    sink = BytesIO()
    image.save(sink, "PNG", compress_level=1)
    return sink.getvalue() if sink.tell() <= PNG_BYTES_MAX else None
