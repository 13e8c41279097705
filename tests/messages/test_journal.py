"""The journal: cut anywhere it gives a correct prefix, damaged anywhere it says so."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.base import ActorName, Envelope, Message, MessageId, RunId
from envs_node.messages.journal import (
    Entry,
    JournalError,
    JournalFullError,
    JournalWriter,
    read_journal,
)
from envs_node.messages.search import Idle, WorkWanted

A = ActorName("search/t")
HEADER_BYTES = 16


def envelope(number: int, message: Message | None = None) -> Envelope[Message]:
    return Envelope(
        id=MessageId(f"m{number}"),
        sender=ActorName("w"),
        to=A,
        run=RunId("r"),
        sequence=number,
        time_ns=number,
        message=message or WorkWanted(worker=ActorName("w")),
    )


def write(folder: Path, count: int, *, segment_bytes: int = 1 << 20) -> list[Entry]:
    with JournalWriter(folder, segment_bytes=segment_bytes) as writer:
        for number in range(count):
            writer.append(A, "heard", envelope(number))
            writer.append(A, "answered", envelope(number, Idle(retry_ms=number)), index=3)
    return list(read_journal(folder))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(A, "started")
        writer.append(A, "said", envelope(1), index=0)
        writer.append(A, "received", index=0, error="timeout")

    assert list(read_journal(tmp_path / "j")) == [
        Entry(actor=A, kind="started"),
        Entry(actor=A, kind="said", index=0, envelope=envelope(1)),  # type: ignore[arg-type]
        Entry(actor=A, kind="received", index=0, error="timeout"),
    ]


def test_segments_rotate_by_size_and_are_read_in_order(tmp_path: Path) -> None:
    entries = write(tmp_path, 30, segment_bytes=500)

    sizes = [path.stat().st_size for path in tmp_path.glob("*.journal")]
    assert len(sizes) > 5
    assert max(sizes) <= 500
    assert [e.envelope.sequence for e in entries if e.envelope] == sorted([*range(30)] * 2)


def test_cut_at_any_byte_it_is_a_prefix_and_goes_on_from_there(tmp_path: Path) -> None:
    entries = write(tmp_path / "whole", 3)
    data = (tmp_path / "whole" / "000000.journal").read_bytes()
    ends = [HEADER_BYTES]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 8 + struct.unpack_from("<I", data, ends[-1])[0])

    for cut in range(len(data) + 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "000000.journal").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends[1:])

        assert list(read_journal(folder)) == entries[:whole]
        with JournalWriter(folder) as writer:
            writer.append(A, "started")
        assert list(read_journal(folder)) == [
            *entries[:whole],
            Entry(actor=A, kind="started"),
        ]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_never_read_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("j")
    entries = write(folder, 3)
    path = folder / "000000.journal"
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)

    read: list[Entry] = []
    with contextlib.suppress(JournalError):
        read.extend(read_journal(folder))

    assert len(read) < len(entries)
    assert read == entries[: len(read)]


def test_a_damaged_record_that_decodes_is_yielded_and_marked(tmp_path: Path) -> None:
    entries = write(tmp_path, 2)
    path = tmp_path / "000000.journal"
    path.write_bytes(path.read_bytes().replace(b"\x01w", b"\x01w").replace(b"m1", b"m7", 1))

    with pytest.raises(JournalError, match=r"000000.journal is damaged at byte \d+"):
        list(read_journal(tmp_path))
    read = list(read_journal(tmp_path, strict=False))

    assert [entry.is_damaged for entry in read] == [False, False, True, False]
    assert read[3] == entries[3]
    assert read[2].envelope is not None
    assert read[2].envelope.id == "m7"


def test_a_damaged_record_that_does_not_decode_is_named(tmp_path: Path) -> None:
    write(tmp_path, 2)
    path = tmp_path / "000000.journal"
    path.write_bytes(path.read_bytes().replace(b"WorkWanted", b"\xff" * 10, 1))

    with pytest.raises(JournalError, match=r"000000.journal is damaged at byte 16"):
        list(read_journal(tmp_path, strict=False))


def test_a_full_disk_says_so_and_leaves_whole_records(tmp_path: Path) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    with JournalWriter(tmp_path) as writer:
        writer.append(A, "heard", envelope(0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, old[1]))
        try:
            with pytest.raises(JournalFullError, match="free space there and resume the run"):
                _append_many(writer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        written = writer.statistics()["segment_bytes"]

        assert (tmp_path / "000000.journal").stat().st_size == written
        writer.append(A, "started")

    assert [entry.kind for entry in read_journal(tmp_path)][-2:] == ["heard", "started"]


def _append_many(writer: JournalWriter) -> None:
    for number in range(1, 10):
        writer.append(A, "heard", envelope(number))


@pytest.mark.parametrize("name", ["write", "ftruncate"])
def test_a_disk_that_fails_at_any_write_leaves_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real_write, calls = os.write, [0]

    def fail_at(number: int) -> None:
        def write(descriptor: int, data: bytes) -> int:
            calls[0] += 1
            if calls[0] != number:
                return real_write(descriptor, data)
            real_write(descriptor, data[: len(data) // 2])
            if name == "ftruncate":  # what was cut short cannot even be cut off, for once
                cut = _once(os.ftruncate)
                monkeypatch.setattr(os, "ftruncate", cut)
            raise OSError(errno.EIO, "the disk failed")

        calls[0] = 0
        monkeypatch.setattr(os, "write", write)

    for number in range(1, 12):
        folder = tmp_path / str(number)
        with JournalWriter(folder, segment_bytes=120) as writer:
            fail_at(number)
            kept = []
            for place in range(8):
                with contextlib.suppress(OSError):
                    writer.append(A, "received", error=str(place))
                    kept.append(str(place))
        monkeypatch.undo()

        assert len(kept) >= 7
        assert [entry.error for entry in read_journal(folder)] == kept
        JournalWriter(folder).close()


def _once(real: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Fails the first time."""
    failures = [OSError(errno.EIO, "the disk failed")]

    def cut(descriptor: int, length: int) -> None:
        if failures:
            raise failures.pop()
        real(descriptor, length)

    return cut


def test_what_is_cut_away_is_kept_beside(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with (tmp_path / "000000.journal").open("ab") as file:
        file.write(b"\x40\x00\x00\x00torn")

    JournalWriter(tmp_path).close()

    assert (tmp_path / "000000.torn").read_bytes() == b"\x40\x00\x00\x00torn"


def test_damage_before_the_tail_is_not_cut_but_refused(tmp_path: Path) -> None:
    write(tmp_path, 2)
    path = tmp_path / "000000.journal"
    path.write_bytes(path.read_bytes().replace(b"m0", b"m9", 1))

    with pytest.raises(JournalError, match="damaged at byte 16: the checksum differs"):
        JournalWriter(tmp_path)


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    with JournalWriter(tmp_path), pytest.raises(JournalError, match="another process"):
        JournalWriter(tmp_path)


def test_another_schema_or_another_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "000000.journal"
    path.write_bytes(struct.pack("<8sII", b"ENVSJRNL", 99, 0))
    with pytest.raises(JournalError, match="has schema 99, this version reads 1"):
        list(read_journal(tmp_path))

    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(JournalError, match="no journal segment"):
        JournalWriter(tmp_path)


def test_no_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holds no journal"):
        list(read_journal(tmp_path))


def test_a_record_of_a_later_version_keeps_its_checksum_and_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    payload = msgspec.msgpack.encode(["a", "dreamt", 0, "", None])
    with (tmp_path / "000000.journal").open("ab") as file:
        file.write(struct.pack("<II", len(payload), zlib.crc32(payload)) + payload)

    with pytest.raises(JournalError, match="dreamt"):
        list(read_journal(tmp_path))


def _offsets(data: bytes) -> list[int]:
    """Where the records of a segment begin."""
    offsets, at = [], HEADER_BYTES
    while at < len(data):
        offsets.append(at)
        at += 8 + struct.unpack_from("<I", data, at)[0]
    return offsets


@pytest.mark.parametrize("byte", range(4))
def test_a_damaged_length_is_named_and_no_torn_tail(tmp_path: Path, byte: int) -> None:
    write(tmp_path / "whole", 4)
    data = (tmp_path / "whole" / "000000.journal").read_bytes()
    number = 0

    for offset in _offsets(data):
        for flipped in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = bytearray(data)
            damaged[offset + byte] ^= flipped
            number += 1
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "000000.journal").write_bytes(damaged)

            with pytest.raises(JournalError, match=rf"damaged at byte {offset}"):
                list(read_journal(folder))
            if offset != _offsets(data)[-1]:  # what is last may be cut, and is kept beside
                with pytest.raises(JournalError, match=rf"damaged at byte {offset}"):
                    JournalWriter(folder)
                assert (folder / "000000.journal").read_bytes() == damaged


def test_a_tail_that_looks_like_many_records_is_read_in_little_time(tmp_path: Path) -> None:
    write(tmp_path, 1)
    tail = struct.pack("<II", 1 << 16, 7) + bytes([0x95, 0xFF, 0x10, 0, 0]) * 10_000
    with (tmp_path / "000000.journal").open("ab") as file:
        file.write(tail)

    started_s = time.monotonic()
    read = list(read_journal(tmp_path))

    assert len(read) == 2
    assert time.monotonic() - started_s < 5
