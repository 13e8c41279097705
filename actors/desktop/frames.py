"""The packed frames that a desktop keeps of its episode, so that they can be asked for later."""

from __future__ import annotations

from collections import OrderedDict

FRAMES_MAX, FRAMES_BYTES_MAX = 64, 64 << 20
"""Of one episode. A usual frame takes 0.2 MB; one of noise, which anybody can show, 8 MB."""


def trim_frames(frames: OrderedDict[str, bytes]) -> None:
    """Drop the oldest packed frames until the others fit; the last one stays."""
    size_bytes = sum(map(len, frames.values()))
    while len(frames) > 1 and (len(frames) > FRAMES_MAX or size_bytes > FRAMES_BYTES_MAX):
        size_bytes -= len(frames.popitem(last=False)[1])
