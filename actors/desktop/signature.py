"""The signature of a desktop's state: picture, windows, focus, elements and working files."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import xxhash

from envs_node.actors.desktop.screen import Pixels, frame_digest, tile_digests
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, Signature

_FILES_MAX = 10_000
_CHUNK_BYTES = 1 << 20
_DOCUMENTS = (".docx", ".odp", ".ods", ".odt", ".pptx", ".xlsx")
_SAVE_MARKS = ("docProps/", "meta.xml", "settings.xml", "Thumbnails/")
"""Parts of a document that tell when and where it was saved, and show how it looked then."""
_SLIDE_BYTES_MAX = 4 << 20
_FIELD = re.compile(rb"<a:fld\b.*?</a:fld>", re.DOTALL)
"""A date, time or slide number that LibreOffice fills in anew at every save."""


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
            digest.update(_document_digest(path) or _content_digest(path))
    except OSError:
        digest.update(b"gone")


def _content_digest(path: str) -> bytes:
    content = xxhash.xxh3_128()
    with open(path, "rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            content.update(chunk)
    return content.digest()


def _document_digest(path: str) -> bytes | None:
    """Digest of an office document but for what says when and where it was saved.

    Most parts count by the checksum that stands in the document's directory; slides are unpacked,
    for their fields hold the date and a random id. None for a file that is no whole document: it
    counts by its bytes.
    """
    if not path.lower().endswith(_DOCUMENTS):
        return None
    try:
        with zipfile.ZipFile(path) as document:
            told = [
                (part.filename, _part_digest(document, part))
                for part in document.infolist()
                if not part.filename.startswith(_SAVE_MARKS)
            ]
    except (zipfile.BadZipFile, zlib.error, ValueError):
        return None
    return xxhash.xxh3_128_digest(msgspec.msgpack.encode(sorted(told)))


def _part_digest(document: zipfile.ZipFile, part: zipfile.ZipInfo) -> int:
    is_slide = part.filename.startswith("ppt/") and part.filename.endswith(".xml")
    if not is_slide or part.file_size > _SLIDE_BYTES_MAX:
        return part.CRC
    return xxhash.xxh3_64_intdigest(_FIELD.sub(b"", document.read(part)))
