"""The signature of a desktop's state: picture, windows, focus, elements and working files."""

from __future__ import annotations

import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import xxhash

from envs_node.actors.desktop.screen import Pixels, frame_digest, tile_digests
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, Signature

_FILES_MAX = 10_000
_CHUNK_BYTES = 1 << 20
_READ_BYTES_MAX = 1 << 30
"""Read at one look. A desktop's disk holds no more; a file may claim to, with holes."""
_DOCUMENT_BYTES_MAX = 64 << 20
_UNPACKED_BYTES_MAX = 64 << 20
_DOCUMENTS = (".docx", ".odp", ".ods", ".odt", ".pptx", ".xlsx")
_SAVE_MARKS = ("docProps/", "meta.xml", "settings.xml", "Thumbnails/")
"""Parts of a document that tell when and where it was saved, and show how it looked then."""
_SLIDE_BYTES_MAX = 4 << 20
_FIELD, _FIELD_END = re.compile(rb"<a:fld\b"), b"</a:fld>"
"""Around a date, time or slide number that LibreOffice fills in anew at every save."""
_NO_DOCUMENT = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError,
    OSError,  # bzip2's word for damage
    RuntimeError,  # a part is locked with a password, or packed in an unknown way
)  # fmt: skip


def sign(
    pixels: Pixels,
    windows: Sequence[Window],
    focused: int,
    elements: Sequence[Element],
    home: Path,
) -> Signature:
    """Build the signature of what was seen at one moment.

    Of each pixel's four bytes the last shows nothing, and GIMP leaves in it what was there.
    """
    pixels = (pixels.view(np.uint32) & np.uint32(0x00FFFFFF)).view(np.uint8)
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
    counts as absent. What comes after the first GiB of content counts by its size.
    """
    digest = xxhash.xxh3_128()
    count, left_bytes = 0, _READ_BYTES_MAX
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
            left_bytes -= _update(digest, path, left_bytes)
    return digest.hexdigest()


def _update(digest: xxhash.xxh3_128, path: str, left_bytes: int) -> int:
    """Add a file's content, or what stands for it; how many bytes were read for that."""
    try:
        if os.path.islink(path):
            digest.update(b"link " + os.fsencode(os.readlink(path)) + b"\0")
        elif os.path.isfile(path):
            # What lies here may be exchanged meanwhile: no link is followed, no pipe waited for.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as source:
                return _update_file(digest, path, source, left_bytes)
    except OSError:
        digest.update(b"gone")
    return 0


def _update_file(digest: xxhash.xxh3_128, path: str, source: BinaryIO, left_bytes: int) -> int:
    status = os.fstat(source.fileno())
    if not stat.S_ISREG(status.st_mode):
        return 0
    is_document = path.lower().endswith(_DOCUMENTS) and status.st_size <= _DOCUMENT_BYTES_MAX
    told = _document_digest(source) if is_document else None
    if told is None:
        source.seek(0)
        told = _content_digest(source, left_bytes)
    digest.update(told)
    if status.st_size > left_bytes:
        digest.update(b"size %d\0" % status.st_size)
    return min(status.st_size, left_bytes)


def _content_digest(source: BinaryIO, most_bytes: int) -> bytes:
    content = xxhash.xxh3_128()
    while most_bytes > 0 and (chunk := source.read(min(_CHUNK_BYTES, most_bytes))):
        content.update(chunk)
        most_bytes -= len(chunk)
    return content.digest()


def _document_digest(source: BinaryIO) -> bytes | None:
    """Digest of an office document but for what says when and where it was saved.

    Most parts count by the checksum that stands in the document's directory; slides are unpacked,
    for their fields hold the date and a random id. None for a file that is no whole document: it
    counts by its bytes.
    """
    told, left_bytes = [], _UNPACKED_BYTES_MAX
    try:
        with zipfile.ZipFile(source) as document:
            for part in document.infolist():
                if part.filename.startswith(_SAVE_MARKS):
                    continue
                is_slide = part.filename.startswith("ppt/") and part.filename.endswith(".xml")
                if is_slide and part.file_size <= min(_SLIDE_BYTES_MAX, left_bytes):
                    left_bytes -= part.file_size
                    told.append((part.filename, _slide_digest(document.read(part))))
                else:
                    told.append((part.filename, part.CRC))
    except _NO_DOCUMENT:
        return None
    return xxhash.xxh3_128_digest(msgspec.msgpack.encode(sorted(told)))


def _slide_digest(slide: bytes) -> int:
    digest = xxhash.xxh3_64()
    for part in _outside_fields(slide):
        digest.update(part)
    return digest.intdigest()


def _outside_fields(slide: bytes) -> Iterator[bytes]:
    """What is no field, in order. One pass, however many fields are opened and never closed."""
    end = 0
    while field := _FIELD.search(slide, end):
        closed = slide.find(_FIELD_END, field.end())
        if closed < 0:
            break
        yield slide[end : field.start()]
        end = closed + len(_FIELD_END)
    yield slide[end:]
