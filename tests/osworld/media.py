"""Pictures, sounds and films as bytes, made by code."""

from __future__ import annotations

import io
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageEnhance, ImageOps

_WIDTH, _HEIGHT = 320, 240
_FFMPEG = ("ffmpeg", "-nostdin", "-loglevel", "error", "-y")


def photo() -> Image.Image:
    """A picture with hues, shades and edges, unlike its own mirror image."""
    across = Image.linear_gradient("L").rotate(90).resize((_WIDTH, _HEIGHT))
    down = Image.linear_gradient("L").resize((_WIDTH, _HEIGHT))
    floor = Image.new("L", (_WIDTH, _HEIGHT), 110)
    picture = Image.merge("RGB", (across.point(lambda v: 90 + v // 3), floor, down))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((20, 40, 120, 160), fill=(200, 120, 90))
    draw.rectangle((180, 20, 240, 200), fill=(90, 150, 120))
    draw.polygon(((30, 220), (90, 180), (150, 230)), fill=(120, 100, 180))
    return picture


def encode(picture: Image.Image, form: str = "PNG") -> bytes:
    """A picture as a file."""
    out = io.BytesIO()
    picture.save(out, form)
    return out.getvalue()


def mirrored() -> bytes:
    """The photo, left and right exchanged."""
    return encode(ImageOps.mirror(photo()))


def darker() -> bytes:
    """The photo with half the light."""
    return encode(ImageEnhance.Brightness(photo()).enhance(0.5))


def contrasted() -> bytes:
    """The photo with more contrast."""
    return encode(ImageEnhance.Contrast(photo()).enhance(1.4))


def vivid() -> bytes:
    """The photo with the same hues and lights, and more colour."""
    hue, saturation, value = photo().convert("HSV").split()
    more = saturation.point(lambda level: min(255, round(level * 1.25)))
    return encode(Image.merge("HSV", (hue, more, value)).convert("RGB"))


def indexed() -> bytes:
    """The photo in a palette of its own."""
    return encode(photo().quantize(256))


def cutout() -> bytes:
    """A figure before nothing."""
    picture = Image.new("RGBA", (_WIDTH, _HEIGHT), (0, 0, 0, 0))
    picture.paste((200, 120, 90, 255), (100, 60, 220, 200))
    return encode(picture)


def film(seconds: int, *options: str) -> bytes:
    """An mp4 whose picture changes, with a tone.

    Args:
        options: further ones of ffmpeg, before the name of what it writes.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        picture = f"testsrc=duration={seconds}:size={_WIDTH}x{_HEIGHT}:rate=5"
        sound = f"sine=frequency=440:duration={seconds}"
        inputs = ("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound)
        form = ("-pix_fmt", "yuv420p", "-shortest")
        subprocess.run([*_FFMPEG, *inputs, *form, *options, str(path)], check=True)
        return path.read_bytes()
