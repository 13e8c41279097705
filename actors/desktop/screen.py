"""The screen: the X server's picture through shared memory, hashed and packed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray
from PIL import Image

from envs_node.actors.desktop.doors import open_inside
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guest.xclient import XClient
from envs_node.actors.desktop.xserver import ANSWER_TIMEOUT_S
from envs_node.messages.base import WIRE_BYTES_MAX

Pixels: TypeAlias = NDArray[np.uint8]
TILE_PX = 80
PNG_BYTES_MAX = WIRE_BYTES_MAX - 64 * 1024


class Screen:
    """The picture of one X server, read from memory that the server copies it into.

    A picture holds everything that the server was asked to draw before it was taken, by anybody,
    and no half of a request. Call from one thread at a time.
    """

    def __init__(self, path: Path, width: int, height: int) -> None:
        """Share memory with the server.

        Args:
            path: the server's socket.
            width: what the screen must measure, in px.
            height: likewise.

        Raises:
            DesktopLostError: the server does not answer, or its screen has another size.
        """
        self.width, self.height = width, height
        self.grabs = 0
        """How often the server was asked for the picture."""
        self._digest = ""
        try:
            door = open_inside(path)
            try:
                self._client = XClient(f"/proc/self/fd/{door}", ANSWER_TIMEOUT_S)
            finally:
                os.close(door)
        except OSError as error:
            raise DesktopLostError(f"no X server to take pictures of: {error}") from error
        real = (self._client.width, self._client.height)
        if real != (width, height):
            self._client.close()
            raise DesktopLostError(
                f"the screen is {real[0]}x{real[1]}, and {width}x{height} was asked for"
            )
        flat = np.frombuffer(self._client.pixels or b"", np.uint8)
        self._pixels: Pixels = flat.reshape(height, width, 4)

    def grab(self) -> Pixels:
        """The picture as it is now, until this screen is next read.  # (height, width, 4) BGRX

        Raises:
            DesktopLostError: the server does not answer, or its screen has another size now.
        """
        self._take()
        self._digest = ""
        return self._pixels

    def digest(self) -> str:
        """Hash the picture as it is now; it is not even read when nothing was drawn since.

        Raises:
            DesktopLostError: the server does not answer.
        """
        with self._losing():
            if self._digest and not self._client.has_changed():
                return self._digest
        self._take()
        self._digest = frame_digest(self._pixels)
        return self._digest

    def detach(self) -> None:
        """Have the server forget our memory, and hang up.

        Raises:
            DesktopLostError: the server does not answer.
        """
        with self._losing():
            self._client.detach()
        self.close()

    def close(self) -> None:
        """Hang up without waiting, and let the memory go. Twice does no harm."""
        self._client.close()
        self._pixels = self._pixels[:0].copy()  # a view would keep all of it

    def _take(self) -> None:
        self.grabs += 1
        with self._losing():
            self._client.take()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.close()  # a late answer would be taken for that of the next request
            raise DesktopLostError(f"no picture: {error}") from error


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
