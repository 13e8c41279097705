"""The journal: what each actor heard and said, appended in order, read back or refused.

A folder of segments. A segment is a header and records; a record is its length, the checksum of
its payload, and the payload. A write that was cut short leaves a torn tail, which is cut away when
the journal is opened again; damage anywhere else is named, never guessed around.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from envs_node.messages.base import ActorName, Envelope, Message
from envs_node.messages.journal_archive import open_whole
from envs_node.messages.journal_format import (
    DISK_FULL,
    HEADER,
    SCHEMA,
    Entry,
    JournalError,
    JournalFullError,
    Kind,
    Record,
    Stored,
    archive_path,
    damaged,
    decode_entry,
    decode_record,
    encode_record,
    header,
    holds_record,
    read_header,
    read_stored,
    segment_numbers,
    segment_path,
)

__all__ = [
    "SCHEMA",
    "Entry",
    "JournalError",
    "JournalFullError",
    "JournalWriter",
    "Kind",
    "Record",
    "read_journal",
    "read_live",
]


class JournalWriter:
    """Appends to a journal folder, one writer at a time.

    A record is handed to the operating system before `append` returns: it outlives this process,
    and with `sync=True` the machine too, at the price of one fsync a record.

    Args:
        reserve_bytes: kept allocated beside the segments, and given up when the disk is full, so
            that what is under way can still be recorded; `refill` takes it back.

    Raises:
        JournalError: another process has it open, or it is damaged before its tail.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 64 * 1024 * 1024,
        sync: bool = False,
        reserve_bytes: int = 0,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._reserve_bytes = reserve_bytes
        self._reserve = folder / "reserve"
        self._file = -1
        self._is_torn = False
        """Whether the segment may end within a record."""
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._take_lock()
            for partial in folder.glob("*.partial"):
                partial.unlink()
            self.refill()
            self._open_last()
        except (OSError, JournalError):
            self.close()
            raise

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(
        self,
        actor: ActorName,
        kind: Kind,
        envelope: Envelope[Message] | None = None,
        *,
        index: int = -1,
        error: str = "",
    ) -> None:
        """Append one entry.

        Raises:
            JournalFullError: the disk is full; the journal still ends with a whole record.
            JournalError: the entry is too large, or the writer is closed.
        """
        if self._file < 0:
            raise JournalError(f"the journal {self.folder} is closed")
        data = encode_record(actor, kind, envelope, index, error)
        if self._offset + len(data) > self._segment_bytes:
            self.rotate()
        self._write(data)

    def rotate(self) -> None:
        """Close the segment and open the next, unless nothing is in it.

        Raises:
            JournalFullError: no room for the next; the segment stays open.
        """
        if self._offset > HEADER.size:
            self._open_segment(self._number + 1)

    def refill(self) -> bool:
        """Take the reserve back. False when the disk has no room for it."""
        if not self._reserve_bytes:
            return True
        try:
            descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.posix_fallocate(descriptor, 0, self._reserve_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._reserve.unlink(missing_ok=True)
            return False
        return True

    def has_reserve(self) -> bool:
        """Whether the reserve was not needed since it was taken."""
        return not self._reserve_bytes or self._reserve.exists()

    def close(self) -> None:
        """Close the segment and let others write. May be called twice."""
        if self._lock >= 0 and self._reserve_bytes:
            with contextlib.suppress(OSError):
                self._reserve.unlink(missing_ok=True)
        for name in ("_file", "_lock"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                os.close(descriptor)

    def statistics(self) -> dict[str, int]:
        """Where the writer stands."""
        return {"segment": self._number, "segment_bytes": self._offset}

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._reserve_bytes = 0  # it is the other's
            raise JournalError(
                f"another process is writing the journal {self.folder}; stop it first"
            ) from error

    def _open_last(self) -> None:
        numbers = segment_numbers(self.folder)
        if not numbers or archive_path(self.folder, numbers[-1]).exists():
            self._open_segment(numbers[-1] + 1 if numbers else 0)
            return
        path = segment_path(self.folder, numbers[-1])
        whole = _whole_bytes(path)
        if whole < path.stat().st_size:
            with path.open("rb") as file:
                file.seek(whole)
                path.with_suffix(".torn").write_bytes(file.read())
            os.truncate(path, whole)
        if whole == 0:
            self._open_segment(numbers[-1])
            return
        self._number = numbers[-1]
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._offset = whole

    def _open_segment(self, number: int) -> None:
        """Make the next segment, whole or not at all, and append to it from here on."""
        path = segment_path(self.folder, number)
        data = header(number)
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            raise self._full(path, error) from error
        old, offset = self._file, getattr(self, "_offset", 0)
        self._file, self._offset = file, 0
        try:
            self._write(data)
        except (JournalFullError, OSError):
            self._file, self._offset, self._is_torn = old, offset, False
            os.close(file)
            with contextlib.suppress(OSError):  # an empty last segment does no harm
                path.unlink()
            raise
        self._number = number
        if old >= 0:
            os.close(old)

    def _write(self, data: bytes) -> None:
        if self._is_torn:
            self._cut()
        try:
            self._write_whole(data)
        except OSError as error:
            self._cut()
            if error.errno not in DISK_FULL or not self._give_up_reserve():
                raise self._full(self.folder, error) from error
            try:
                self._write_whole(data)
            except OSError as again:
                self._cut()
                raise self._full(self.folder, again) from again
        self._is_torn = False
        self._offset += len(data)

    def _cut(self) -> None:
        """Cut off what was not written whole. Where that fails, it is cut before the next write."""
        os.ftruncate(self._file, self._offset)
        self._is_torn = False

    def _write_whole(self, data: bytes) -> None:
        self._is_torn = True
        written = os.write(self._file, data)
        while written < len(data):
            written += os.write(self._file, data[written:])
        if self._sync:
            os.fsync(self._file)

    def _give_up_reserve(self) -> bool:
        """Free the reserve. False when there was none."""
        if not self._reserve_bytes or not self._reserve.exists():
            return False
        self._reserve.unlink()
        return True

    def _full(self, path: Path, error: OSError) -> OSError | JournalFullError:
        if error.errno not in DISK_FULL:
            return error
        return JournalFullError(path, error.strerror or str(error))


def read_journal(folder: Path, *, strict: bool = True) -> Iterator[Entry]:
    """Yield the entries of a journal in order, up to its torn tail if it has one.

    Closed segments are read from their archives where they have one, which has no torn tail. With
    `strict=False` a record whose checksum differs is still yielded, marked damaged, where it
    decodes: a changed byte then shows as a changed message, not as the end of the journal.

    Raises:
        JournalError: there is no journal, or it is damaged; names the segment and the offset.
    """
    numbers = segment_numbers(folder)
    if not numbers:
        raise JournalError(f"{folder} holds no journal")
    for number in numbers:
        with open_whole(folder, number) as (path, file):
            is_last = number == numbers[-1] and path == segment_path(folder, number)
            for stored in _stored_in(path, file, strict=strict, is_last=is_last):
                yield decode_entry(path, stored)


def read_live(folder: Path) -> Iterator[Record]:
    """Yield what those who go on need to hear: records whose envelopes are still encoded.

    What was archived of actors that have ended is not read, but for how they ended.

    Raises:
        JournalError: it is damaged; names the segment and the offset.
    """
    numbers = segment_numbers(folder)
    for number in numbers:
        path = segment_path(folder, number)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue  # all of it is archived
        with file:
            is_last = number == numbers[-1] and not archive_path(folder, number).exists()
            for stored in _stored_in(path, file, strict=True, is_last=is_last):
                yield decode_record(path, stored)


def _stored_in(path: Path, file: IO[bytes], *, strict: bool, is_last: bool) -> Iterator[Stored]:
    """What a segment holds; the last one may be cut short in its header already."""
    if read_header(path, file):
        yield from read_stored(path, file, strict=strict, is_last=is_last)
    elif not is_last:
        raise damaged(path, 0, "its header is cut short")


def _whole_bytes(path: Path) -> int:
    """Length of the part of a last segment that is whole; the rest is a torn tail."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if not read_header(path, file):
            return 0
        whole = HEADER.size
        for stored in read_stored(path, file, strict=False, is_last=True):
            if stored.is_damaged:
                if stored.end < size or holds_record(stored.payload):
                    raise damaged(path, stored.offset, "the checksum differs")
                break
            whole = stored.end
    return whole
