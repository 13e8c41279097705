"""Closed segments of a journal: kept whole and compressed, and cut down to what is still needed.

For segment N the whole is `N.journal.zst` once that is there, and `N.journal` before. From then on
`N.journal` holds only what actors that have not ended would hear again, and goes when that is
nothing. Every step leaves a journal that both readers read right, whenever the process dies.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import msgspec
import zstandard

from envs_node.messages.base import ActorName
from envs_node.messages.journal_format import (
    HEADER,
    JournalError,
    archive_path,
    damaged,
    decode_record,
    header,
    read_header,
    read_stored,
    segment_numbers,
    segment_path,
)

_LEVEL = 3
_WINDOW_BYTES_MAX = 1 << 27


class Compacted(msgspec.Struct, kw_only=True):
    """What a compaction did, in bytes."""

    segments: int = 0
    whole_bytes: int = 0
    """Of the segments that were archived."""
    archive_bytes: int = 0
    live_bytes: int = 0
    """What is left of the closed segments for those who go on."""


def compact_journal(
    folder: Path,
    below: int,
    is_live: Callable[[ActorName], bool],
    *,
    on_step: Callable[[str], None] = lambda _: None,
) -> Compacted:
    """Archive the segments below a number, and keep of them what live actors need.

    Blocking. Safe beside a writer that is at segment `below` or after, and to be killed in.

    Args:
        is_live: whether an actor would hear its entries again when the run goes on.
        on_step: hears of every step that was made, for tests that end there.

    Raises:
        JournalError: a segment is damaged; it is left as it is.
        OSError: the disk is full, or the folder cannot be written; nothing is lost.
    """
    done = Compacted()
    numbers = segment_numbers(folder)
    for number in numbers:  # what says that an actor has ended outlives what it makes needless
        with contextlib.suppress(FileNotFoundError):
            _sync(segment_path(folder, number))
    for number in numbers:
        segment, archive = segment_path(folder, number), archive_path(folder, number)
        if number >= below or not segment.exists():
            continue
        if not archive.exists():
            done.segments += 1
            done.whole_bytes += segment.stat().st_size
            with _replacing(archive, on_step) as file:
                _compress(segment, file)
            done.archive_bytes += archive.stat().st_size
        done.live_bytes += _extract(segment, number, is_live, on_step)
    return done


@contextmanager
def open_whole(folder: Path, number: int) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a segment as it was written, from its archive where it has one.

    Raises:
        JournalError: it is missing, or its archive is damaged.
    """
    archive, segment = archive_path(folder, number), segment_path(folder, number)
    for path in (archive, segment, archive):  # it may be archived between the two looks
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue
        with file:
            whole = _Unpacked(path, file) if path == archive else file
            yield path, cast(IO[bytes], whole)
        return
    raise JournalError(f"{segment} is missing; put it back")


class _Unpacked:
    """Reads an archive as the segment it was made of. One that is cut short is damaged."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._place = 0
        try:
            self._size = zstandard.get_frame_parameters(file.read(32)).content_size
            file.seek(0)
            unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
            self._reader = unpacker.stream_reader(file)
        except zstandard.ZstdError as error:
            raise damaged(path, 0, str(error)) from error

    def read(self, length: int) -> bytes:
        """Up to so many bytes; fewer only at the end of the segment."""
        taken = b""
        try:
            while len(taken) < length and (part := self._reader.read(length - len(taken))):
                taken += part
        except zstandard.ZstdError as error:
            raise damaged(self._path, self._place, str(error)) from error
        self._place += len(taken)
        if len(taken) < length and self._place != self._size:
            raise damaged(self._path, self._place, "the archive is cut short")
        return taken


def _compress(segment: Path, file: IO[bytes]) -> None:
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with segment.open("rb") as source:
        packer.copy_stream(source, file, size=segment.stat().st_size)


def _extract(
    segment: Path, number: int, is_live: Callable[[ActorName], bool], on_step: Callable[[str], None]
) -> int:
    """Leave in a segment what is needed. Returns its bytes."""
    kept: list[tuple[int, int]] = []
    with segment.open("rb") as file:
        if not read_header(segment, file):
            raise damaged(segment, 0, "its header is cut short")
        for stored in read_stored(segment, file, strict=True, is_last=False):
            record = decode_record(segment, stored)
            if record.kind == "ended" or is_live(record.actor):
                kept.append((stored.offset, stored.end))
    size_bytes = HEADER.size + sum(end - start for start, end in kept)
    if not kept:
        segment.unlink()
        on_step(f"removed {segment.name}")
        return 0
    if size_bytes < segment.stat().st_size:
        with _replacing(segment, on_step) as smaller, segment.open("rb") as file:
            smaller.write(header(number))
            for start, end in kept:
                file.seek(start)
                smaller.write(file.read(end - start))
    return size_bytes


@contextmanager
def _replacing(path: Path, on_step: Callable[[str], None]) -> Iterator[IO[bytes]]:
    """Write a file that takes the place of another, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            on_step(f"opened {partial.name}")
            yield file
            file.flush()
            os.fsync(file.fileno())
        on_step(f"wrote {partial.name}")
        os.replace(partial, path)
    except (OSError, JournalError):
        partial.unlink(missing_ok=True)
        raise
    on_step(f"renamed {path.name}")
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
