"""Pictures, sounds and films as bytes, the same bytes every time."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]


def draw(size: tuple[int, int], ground: Colour, boxes: Sequence[tuple[Box, Colour]]) -> Image.Image:
    """Flat boxes on a flat ground: no edge is blurred, so that pictures compare to the bit."""
    image = Image.new("RGB", size, ground)
    pen = ImageDraw.Draw(image)
    for box, colour in boxes:
        pen.rectangle(box, fill=colour)
    return image


def png(image: Image.Image) -> bytes:
    """A picture as a png."""
    saved = io.BytesIO()
    image.save(saved, "PNG")
    return saved.getvalue()


def tone(pitch_hz: int, seconds: int) -> bytes:
    """A square wave as a wav, 8 bits, 4 kHz."""
    rate_hz = 4000
    period = rate_hz // pitch_hz
    saved = io.BytesIO()
    with wave.open(saved, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(rate_hz)
        samples = (148 if (n // period) % 2 else 108 for n in range(rate_hz * seconds))
        file.writeframes(bytes(samples))
    return saved.getvalue()


def film(image: Image.Image, frames: int) -> bytes:
    """A picture that stands for a second a frame, as uncompressed yuv4mpeg."""
    width, height = image.size
    luma, *chroma = image.convert("YCbCr").split()
    small = [part.resize((width // 2, height // 2), Image.Resampling.BOX) for part in chroma]
    frame = b"FRAME\n" + b"".join(part.tobytes() for part in (luma, *small))
    return f"YUV4MPEG2 W{width} H{height} F1:1 Ip A1:1 C420jpeg\n".encode() + frame * frames
