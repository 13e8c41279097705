"""The signature of a desktop's state: picture, windows, focus, elements and working files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import xxhash

from envs_node.actors.desktop.screen import Pixels, frame_digest, tile_digests
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, Signature

_FILES_MAX = 10_000
_CHUNK_BYTES = 1 << 20


def sign(
    pixels: Pixels,
    windows: Sequence[Window],
    focused: int,
    elements: Sequence[Element],
    home: Path,
) -> Signature:
    """Build the signature of what was seen at one moment."""
    tiles, columns = tile_digests(pixels)
    told = [(e.role, e.name, e.value, e.states) for e in elements]
    return Signature(
        frame=frame_digest(pixels),
        tiles=tiles,
        columns=columns,
        windows=tuple(window.title for window in windows),
        focus=next((window.title for window in windows if window.id == focused), ""),
        elements=xxhash.xxh3_128_hexdigest(msgspec.msgpack.encode(told)),
        files=files_digest(home),
    )


def files_digest(home: Path) -> str:
    """Digest of the visible files below a folder: their relative paths and contents.

    A link counts as where it points, not as what is there; a file that vanishes while it is read
    counts as absent.
    """
    digest = xxhash.xxh3_128()
    count = 0
    for folder, names, files in os.walk(home):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files + names):
            if name.startswith("."):
                continue
            count += 1
            if count > _FILES_MAX:
                return digest.hexdigest()
            path = f"{folder}/{name}"
            digest.update(os.path.relpath(path, home).encode("utf-8", "surrogateescape") + b"\0")
            _update(digest, path)
    return digest.hexdigest()


def _update(digest: xxhash.xxh3_128, path: str) -> None:
    try:
        if os.path.islink(path):
            digest.update(b"link " + os.fsencode(os.readlink(path)) + b"\0")
        elif os.path.isfile(path):
            content = xxhash.xxh3_128()
            with open(path, "rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    content.update(chunk)
            digest.update(content.digest())
    except OSError:
        digest.update(b"gone")
