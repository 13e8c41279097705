"""The journal: what each actor heard and said, appended in order, read back or refused.

A folder of segments. A segment is a header and records; a record is its length, the checksum of
its payload, and the payload. A write that was cut short leaves a torn tail, which is cut away when
the journal is opened again; damage anywhere else is named, never guessed around.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from envs_node.messages import codec
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, Envelope, EnvsError, Message

SCHEMA = 1
"""Raised when journals written before can no longer be read."""

_MAGIC = b"ENVSJRNL"
_HEADER = struct.Struct("<8sII")  # magic, schema, number of the segment
_RECORD = struct.Struct("<II")  # bytes of the payload, its crc32
_RECORD_BYTES_MAX = WIRE_BYTES_MAX + 64 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Kind = Literal["started", "heard", "said", "received", "answered"]
"""What an entry tells of its actor: it started; it heard a request; it said a request of its own
(ask or tell); it received the answer to what it said; it answered what it heard."""


class JournalError(EnvsError):
    """A journal that cannot be written or read as it is."""


class JournalFullError(JournalError):
    """The disk takes no more; what was written before is whole."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot append to {path}: {reason}; free space there and resume the run")
        self.path = path


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to an actor."""

    actor: ActorName
    kind: Kind
    index: int = -1
    """Of `said` and `received`: the actor's requests since it started, from 0. Pairs the two."""
    error: str = ""
    """Of `received`: why there is no answer (`timeout`, or what the asked actor failed with)."""
    envelope: Envelope[codec.AnyMessage] | None = None
    """None for `started`, for an answer that was none, and for an ask that failed."""
    is_damaged: bool = False
    """The checksum does not match, yet the record decodes. Only when read with `strict=False`."""


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of an entry. The envelope stays as `codec` wrote it."""

    actor: ActorName
    kind: Kind
    index: int
    error: str
    envelope: msgspec.Raw


_record_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(_Record)
_NIL = b"\xc0"


def _encode_entry(
    actor: ActorName, kind: Kind, envelope: Envelope[Message] | None, index: int, error: str
) -> bytes:
    body = _NIL if envelope is None else codec.encode(envelope)
    payload = _record_encoder.encode(_Record(actor, kind, index, error, msgspec.Raw(body)))
    if len(payload) > _RECORD_BYTES_MAX:
        raise JournalError(f"an entry of {actor} has {len(payload)} bytes; thin it first")
    return _RECORD.pack(len(payload), zlib.crc32(payload)) + payload


def _decode_entry(payload: bytes, *, is_damaged: bool) -> Entry:
    record = _record_decoder.decode(payload)
    body = bytes(record.envelope)
    return Entry(
        actor=record.actor,
        kind=record.kind,
        index=record.index,
        error=record.error,
        envelope=None if body == _NIL else codec.decode(body),
        is_damaged=is_damaged,
    )


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9][0-9][0-9][0-9][0-9][0-9].journal"))


def _check_header(path: Path, data: bytes) -> None:
    magic, schema, number = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise JournalError(f"{path} is no journal segment: it starts with {bytes(magic)!r}")
    if schema != SCHEMA:
        raise JournalError(
            f"{path} has schema {schema}, this version reads {SCHEMA}; "
            "read it with the version that wrote it (see the run's manifest)"
        )
    if number != int(path.stem):
        raise JournalError(f"{path} says that it is segment {number}: damaged or renamed")


def _whole_bytes(path: Path, data: bytes) -> int:
    """Length of the part of a last segment that is whole; the rest is a torn tail."""
    if len(data) < _HEADER.size:
        return 0
    _check_header(path, data)
    offset = _HEADER.size
    while offset < len(data):
        if len(data) - offset < _RECORD.size or not any(data[offset:]):
            return offset
        length, checksum = _RECORD.unpack_from(data, offset)
        end = offset + _RECORD.size + length
        if not 0 < length <= _RECORD_BYTES_MAX:
            raise JournalError(f"{path} is damaged at byte {offset}: a record of {length} bytes")
        if end > len(data):
            return offset
        if zlib.crc32(data[offset + _RECORD.size : end]) != checksum:
            if end == len(data):
                return offset
            raise JournalError(f"{path} is damaged at byte {offset}: the checksum differs")
        offset = end
    return offset


class JournalWriter:
    """Appends to a journal folder, one writer at a time.

    A record is handed to the operating system before `append` returns: it outlives this process,
    and with `sync=True` the machine too, at the price of one fsync a record.

    Raises:
        JournalError: another process has it open, or it is damaged before its tail.
    """

    def __init__(
        self, folder: Path, *, segment_bytes: int = 64 * 1024 * 1024, sync: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._file = -1
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._take_lock()
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
            raise JournalError(f"the journal {self._folder} is closed")
        data = _encode_entry(actor, kind, envelope, index, error)
        if self._offset + len(data) > self._segment_bytes and self._offset > _HEADER.size:
            self._open_segment(self._number + 1)
        self._write(data)

    def close(self) -> None:
        """Close the segment and let others write. May be called twice."""
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
            raise JournalError(
                f"another process is writing the journal {self._folder}; stop it first"
            ) from error

    def _open_last(self) -> None:
        segments = _segments(self._folder)
        if not segments:
            self._open_segment(0)
            return
        path = segments[-1]
        data = path.read_bytes()
        whole = _whole_bytes(path, data)
        self._number = int(path.stem)
        if whole < len(data):
            path.with_suffix(".torn").write_bytes(data[whole:])
            os.truncate(path, whole)
        if whole == 0:
            self._open_segment(self._number)
            return
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._offset = whole

    def _open_segment(self, number: int) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._number = number
        self._file = os.open(self._path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._offset = 0
        self._write(_HEADER.pack(_MAGIC, SCHEMA, number))

    def _path(self) -> Path:
        return self._folder / f"{self._number:06d}.journal"

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
            if self._sync:
                os.fsync(self._file)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if self._path().is_file():
                os.ftruncate(self._file, self._offset)
            raise JournalFullError(self._path(), error.strerror or str(error)) from error
        self._offset += len(data)


def read_journal(folder: Path, *, strict: bool = True) -> Iterator[Entry]:
    """Yield the entries of a journal in order, up to its torn tail if it has one.

    With `strict=False` a record whose checksum differs is still yielded, marked damaged, where it
    decodes: a changed byte then shows as a changed message, not as the end of the journal.

    Raises:
        JournalError: there is no journal, or it is damaged; names the segment and the offset.
    """
    segments = _segments(folder)
    if not segments:
        raise JournalError(f"{folder} holds no journal")
    for path in segments:
        yield from _read_segment(path, strict=strict, is_last=path == segments[-1])


def _read_segment(path: Path, *, strict: bool, is_last: bool) -> Iterator[Entry]:
    data = path.read_bytes()
    offset = 0
    if len(data) >= _HEADER.size:
        _check_header(path, data)
        offset = _HEADER.size
    while offset < len(data):
        length, checksum, end = 0, 0, len(data) + 1
        if len(data) - offset >= _RECORD.size:
            length, checksum = _RECORD.unpack_from(data, offset)
            end = offset + _RECORD.size + length
        if end > len(data) or length == 0:
            if is_last and (end > len(data) or not any(data[offset:])):
                return
            raise JournalError(f"{path} is damaged at byte {offset}: a record is cut short")
        payload = data[offset + _RECORD.size : end]
        is_damaged = zlib.crc32(payload) != checksum
        if is_damaged and strict:
            raise JournalError(f"{path} is damaged at byte {offset}: the checksum differs")
        try:
            entry = _decode_entry(payload, is_damaged=is_damaged)
        except (msgspec.DecodeError, codec.CodecError, UnicodeDecodeError) as error:
            raise JournalError(f"{path} is damaged at byte {offset}: {error}") from error
        yield entry
        offset = end
