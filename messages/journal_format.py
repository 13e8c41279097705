"""How a journal lies on disk: segments of records, each with its length and checksum."""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple

import msgspec

from envs_node.messages import codec
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, Envelope, EnvsError, Message

SCHEMA = 1
"""Raised when journals written before can no longer be read."""
HEADER = struct.Struct("<8sII")  # magic, schema, number of the segment
RECORD = struct.Struct("<II")  # bytes of the payload, its crc32
RECORD_BYTES_MAX = WIRE_BYTES_MAX + 64 * 1024

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""How the system says that a disk takes no more."""

_MAGIC = b"ENVSJRNL"
_CHUNK_BYTES = 1 << 20
_NIL = b"\xc0"
_FIRST = b"\x95"
"""With which every payload begins: an array of the five fields of a `Record`."""
_SEARCHED_BYTES_MAX = 1 << 30

Kind = Literal["started", "heard", "said", "received", "answered", "ended"]
"""What an entry tells of its actor: it started; it heard a request; it said a request of its own
(ask or tell); it received the answer to what it said; it answered what it heard; it has ended, and
nothing that it heard before needs to be heard again."""


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


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of an entry. The envelope stays as `codec` wrote it."""

    actor: ActorName
    kind: Kind
    index: int
    error: str
    envelope: msgspec.Raw

    def entry(self, *, is_damaged: bool = False) -> Entry:
        """The entry, decoded.

        Raises:
            JournalError: its envelope is none, or of a message that this version does not know.
        """
        body = bytes(self.envelope)
        try:
            envelope = None if body == _NIL else codec.decode(body)
        except codec.CodecError as error:
            raise JournalError(f"a record of {self.actor} holds no message: {error}") from error
        return Entry(
            actor=self.actor,
            kind=self.kind,
            index=self.index,
            error=self.error,
            envelope=envelope,
            is_damaged=is_damaged,
        )


class Stored(NamedTuple):
    """A record as it lies in a segment."""

    offset: int
    payload: bytes
    is_damaged: bool

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.offset + RECORD.size + len(self.payload)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(
    actor: ActorName, kind: Kind, envelope: Envelope[Message] | None, index: int, error: str
) -> bytes:
    """An entry with its length and checksum before it.

    Raises:
        JournalError: it is too large.
    """
    body = _NIL if envelope is None else codec.encode(envelope)
    payload = _encoder.encode(Record(actor, kind, index, error, msgspec.Raw(body)))
    if len(payload) > RECORD_BYTES_MAX:
        raise JournalError(f"an entry of {actor} has {len(payload)} bytes; thin it first")
    return frame(payload)


def frame(payload: bytes) -> bytes:
    """A payload with its length and checksum before it."""
    return RECORD.pack(len(payload), zlib.crc32(payload)) + payload


def decode_record(path: Path, stored: Stored) -> Record:
    """A record whose envelope is still encoded.

    Raises:
        JournalError: it is no record; names segment and offset.
    """
    try:
        return _decoder.decode(stored.payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(path, stored.offset, str(error)) from error


def decode_entry(path: Path, stored: Stored) -> Entry:
    """An entry, complete.

    Raises:
        JournalError: it is none, or its envelope is none; names segment and offset.
    """
    record = decode_record(path, stored)
    try:
        return record.entry(is_damaged=stored.is_damaged)
    except JournalError as error:
        raise damaged(path, stored.offset, str(error)) from error


def damaged(path: Path, offset: int, what: str) -> JournalError:
    """How damage is named."""
    return JournalError(f"{path} is damaged at byte {offset}: {what}")


def segment_path(folder: Path, number: int) -> Path:
    """The segment that is appended to, or what is left of it for those who go on."""
    return folder / f"{number:06d}.journal"


def archive_path(folder: Path, number: int) -> Path:
    """The whole of a closed segment, compressed."""
    return folder / f"{number:06d}.journal.zst"


def segment_numbers(folder: Path) -> list[int]:
    """The segments of a journal in order, archived or not.

    Raises:
        JournalError: one of them is missing.
    """
    digits = "[0-9]" * 6
    paths = [*folder.glob(f"{digits}.journal"), *folder.glob(f"{digits}.journal.zst")]
    numbers = sorted({int(path.name[:6]) for path in paths})
    for expected, number in enumerate(numbers):
        if number != expected:
            raise JournalError(f"{segment_path(folder, expected)} is missing; put it back")
    return numbers


def header(number: int) -> bytes:
    """How a segment begins."""
    return HEADER.pack(_MAGIC, SCHEMA, number)


def read_header(path: Path, file: IO[bytes]) -> bool:
    """Read past the header. False when the file ends within it.

    Raises:
        JournalError: it is no segment, another schema, or another number.
    """
    data = file.read(HEADER.size)
    if len(data) < HEADER.size:
        return False
    magic, schema, number = HEADER.unpack(data)
    if magic != _MAGIC:
        raise JournalError(f"{path} is no journal segment: it starts with {bytes(magic)!r}")
    if schema != SCHEMA:
        raise JournalError(
            f"{path} has schema {schema}, this version reads {SCHEMA}; "
            "read it with the version that wrote it (see the run's manifest)"
        )
    if number != int(path.name[:6]):
        raise JournalError(f"{path} says that it is segment {number}: damaged or renamed")
    return True


def read_stored(path: Path, file: IO[bytes], *, strict: bool, is_last: bool) -> Iterator[Stored]:
    """The records of a segment after its header, one in memory at a time.

    A last segment may have a torn tail: a record cut short, or nothing but zeros. It ends there.
    A record that is cut short, yet has whole records after it, was not: its length is damaged.

    Raises:
        JournalError: it is damaged; with `strict`, also where only a checksum differs.
    """
    offset = HEADER.size
    while head := file.read(RECORD.size):
        length, checksum = RECORD.unpack(head) if len(head) == RECORD.size else (0, 0)
        if length > RECORD_BYTES_MAX:
            raise damaged(path, offset, f"a record of {length} bytes")
        payload = file.read(length)
        if length == 0 or len(payload) < length:
            is_whole = zlib.crc32(payload) == checksum
            if length > 0 and is_last and (is_whole or holds_record(payload)):
                raise damaged(path, offset, f"{length} bytes are no length of a record")
            is_torn = length > 0 or ((not any(head) or len(head) < RECORD.size) and _is_zero(file))
            if is_last and is_torn:
                return
            raise damaged(path, offset, "a record is cut short")
        is_damaged = zlib.crc32(payload) != checksum
        if is_damaged and strict:
            raise damaged(path, offset, "the checksum differs")
        stored = Stored(offset, payload, is_damaged)
        yield stored
        offset = stored.end


def holds_record(tail: bytes) -> bool:
    """Whether a whole record lies within what was taken for one; also when that takes too long."""
    view = memoryview(tail)
    left_bytes = _SEARCHED_BYTES_MAX
    at = tail.find(_FIRST, RECORD.size)
    while at >= 0:
        length, checksum = RECORD.unpack_from(tail, at - RECORD.size)
        if 0 < length <= len(tail) - at:
            if zlib.crc32(view[at : at + length]) == checksum:
                return True
            left_bytes -= length
            if left_bytes < 0:
                return True
        at = tail.find(_FIRST, at + 1)
    return False


def _is_zero(file: IO[bytes]) -> bool:
    """Whether nothing but zeros follows."""
    while chunk := file.read(_CHUNK_BYTES):
        if any(chunk):
            return False
    return True
