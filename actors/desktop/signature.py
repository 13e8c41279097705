"""The signature of a desktop's state: picture, windows, focus, elements and working files."""

from __future__ import annotations

import itertools
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import xxhash

from envs_node.actors.desktop.screen import Pixels, frame_digest, tile_digests
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element, Signature, WindowBox
from envs_node.policy.masks import ELEMENT_MASKS, ElementMask, is_of

_FILES_MAX = 10_000
_DEPTH_MAX = 64
"""Folders below the home. What lies deeper is nobody's work, and each costs a descriptor."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_READ_BYTES_MAX = 1 << 30
"""Read at one look. A desktop's disk holds no more; a file may claim to, with holes."""
_DOCUMENT_BYTES_MAX = 64 << 20
_UNPACKED_BYTES_MAX = 64 << 20
_DIRECTORY_BYTES_MAX = 1 << 20
_TAIL_BYTES = 22 + (1 << 16)
_ARCHIVE_END, _LARGE_ARCHIVE = re.compile(rb"(?=PK\x05\x06)"), b"PK\x06\x07"
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
    files: str,
) -> Signature:
    """Build the signature of what was seen at one moment.

    Of each pixel's four bytes the last shows nothing, and GIMP leaves in it what was there.

    Args:
        files: digest of the working files.
    """
    pixels = (pixels.view(np.uint32) & np.uint32(0x00FFFFFF)).view(np.uint8)
    tiles, columns = tile_digests(pixels)
    return Signature(
        frame=frame_digest(pixels),
        tiles=tiles,
        columns=columns,
        windows=tuple(window.title for window in windows),
        focus=next((window.title for window in windows if window.id == focused), ""),
        elements=elements_digest(elements, windows),
        files=files,
        boxes=tuple(
            WindowBox(w.app_class, w.x, w.y, w.width, w.height, w.is_hidden) for w in windows
        ),
    )


def elements_digest(
    elements: Sequence[Element],
    windows: Sequence[Window],
    masks: Sequence[ElementMask] = ELEMENT_MASKS,
) -> str:
    """Digest of what elements say of themselves, but for what is masked."""
    told = (_told(element, windows, masks) for element in elements)
    return xxhash.xxh3_128_hexdigest(msgspec.msgpack.encode([row for row in told if row]))


def _told(
    element: Element, windows: Sequence[Window], masks: Sequence[ElementMask]
) -> tuple[str, str, str, tuple[str, ...]] | None:
    """What counts of an element; None if nothing does."""
    role, name, value, states = element.role, element.name, element.value, element.states
    mine = [mask for mask in masks if not mask.roles or role in mask.roles]
    app_class = _class_at(element, windows) if mine else ""
    for mask in mine:
        is_named = not mask.names or re.fullmatch(mask.names, element.name)
        if not is_named or not is_of(app_class, mask.app_class):
            continue
        match mask.part:
            case "whole":
                return None
            case "name":
                name = ""
            case "value":
                value = ""
            case "states":
                states = ()
    return role, name, value, states


def _class_at(element: Element, windows: Sequence[Window]) -> str:
    """Class of the topmost window that an element's middle lies in."""
    x, y = element.x + element.width / 2, element.y + element.height / 2
    for window in reversed(windows):
        is_inside = (
            window.x <= x < window.x + window.width and window.y <= y < window.y + window.height
        )
        if is_inside and not window.is_hidden:
            return window.app_class
    return ""


def files_digest(home: Path) -> str:
    """Digest of the visible files below a folder: their relative paths and contents.

    A link counts as where it points, not as what is there; a file that vanishes while it is read
    counts as absent. What comes after the first GiB of content counts by its size.
    """
    digest = xxhash.xxh3_128()
    left_bytes = _READ_BYTES_MAX
    try:
        handle = os.open(home, _FOLDER_FLAGS)
    except OSError:
        return digest.hexdigest()
    for folder, inner, name in itertools.islice(_visible(handle, "", 0), _FILES_MAX):
        digest.update(os.fsencode(inner + name) + b"\0")
        left_bytes -= _update(digest, folder, name, left_bytes)
    return digest.hexdigest()


def _visible(handle: int, inner: str, depth: int) -> Iterator[tuple[int, str, str]]:
    """What is in a folder and below: a descriptor of its folder, that one's path, its name.

    Each folder is opened from the one above it, and never through a link: what lies here may be
    exchanged at any moment, and a link would lead into the host's own files. Closes the folder.
    """
    try:
        with os.scandir(handle) as found:
            entries = sorted(
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in found
                if not entry.name.startswith(".")
            )
        for name, _ in entries:
            yield handle, inner, name
        for name, is_folder in entries:
            if is_folder and depth < _DEPTH_MAX:
                with suppress(OSError):  # it is gone, or something else now
                    below = os.open(name, _FOLDER_FLAGS, dir_fd=handle)
                    yield from _visible(below, f"{inner}{name}/", depth + 1)
    finally:
        os.close(handle)


def _update(digest: xxhash.xxh3_128, folder: int, name: str, left_bytes: int) -> int:
    """Add a file's content, or what stands for it; how many bytes were read for that."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            digest.update(b"link " + os.fsencode(os.readlink(name, dir_fd=folder)) + b"\0")
        elif stat.S_ISREG(status.st_mode):
            # It may be exchanged meanwhile: no link is followed, no pipe waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=folder), "rb") as source:
                return _update_file(digest, name, source, left_bytes)
    except OSError:
        digest.update(b"gone")
    return 0


def _update_file(digest: xxhash.xxh3_128, path: str, source: BinaryIO, left_bytes: int) -> int:
    status = os.fstat(source.fileno())
    if not stat.S_ISREG(status.st_mode):
        return 0
    is_document = path.lower().endswith(_DOCUMENTS) and status.st_size <= _DOCUMENT_BYTES_MAX
    told = _document_digest(source) if is_document and _is_modest(source) else None
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


def _is_modest(source: BinaryIO) -> bool:
    """Whether an archive's directory is of a size that may be read into memory."""
    size_bytes = source.seek(0, os.SEEK_END)
    source.seek(max(0, size_bytes - _TAIL_BYTES))
    tail = source.read(_TAIL_BYTES)
    sizes = (tail[found.start() + 12 : found.start() + 16] for found in _ARCHIVE_END.finditer(tail))
    is_small = all(int.from_bytes(size, "little") <= _DIRECTORY_BYTES_MAX for size in sizes)
    return is_small and _LARGE_ARCHIVE not in tail


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
