"""A picture that came from a machine: whole, of the right size, or none at all."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.screen import Pixels

_BEGIN, _END = b"\x89PNG\r\n\x1a\n", b"\0\0\0\0IEND\xaeB`\x82"
_DAMAGE = (OSError, SyntaxError, ValueError, zlib.error, struct.error, EOFError)
"""What Pillow says of a PNG that is none."""


def read_picture(png: bytes, width: int, height: int) -> Pixels:
    """Unpack a screenshot.  # (height, width, 4) BGRX

    Raises:
        DesktopLostError: it is empty, cut, no PNG, or of another size.
    """
    if not png.startswith(_BEGIN):
        raise DesktopLostError(f"the picture is no PNG, but {len(png)} bytes: {png[:16]!r}")
    if not png.endswith(_END):
        raise DesktopLostError(f"the picture is cut off after {len(png)} bytes")
    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            # Its size is looked at first, so that nothing larger is ever unpacked.
            if image.size == (width, height):
                data = image.convert("RGB").tobytes("raw", "BGRX")
                return np.frombuffer(data, np.uint8).reshape(height, width, 4)
    except _DAMAGE as error:
        raise DesktopLostError(f"the picture is damaged: {error}") from error
    real = f"{image.size[0]}x{image.size[1]}"
    raise DesktopLostError(f"the picture is {real}, and the screen {width}x{height}")
