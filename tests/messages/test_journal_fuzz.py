"""Whatever bytes lie in a journal's folder: it is read, or refused as a `JournalError`."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.base import ActorName
from envs_node.messages.journal import JournalError, JournalWriter, read_journal, read_live
from envs_node.messages.journal_archive import compact_journal
from tests.messages.test_journal import envelope

HEADER = struct.pack("<8sII", b"ENVSJRNL", 1, 0)
BYTES_MAX = 24 * 1024 * 1024


def _record(payload: bytes) -> bytes:
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def _whole(folder: Path) -> bytes:
    with JournalWriter(folder) as writer:
        for number in range(4):
            writer.append(ActorName("search/t"), "heard", envelope(number))
    data = (folder / "000000.journal").read_bytes()
    (folder / "000000.journal").unlink()
    return data


bodies = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda data: HEADER + data),
    st.lists(st.binary(max_size=60), max_size=5).map(
        lambda payloads: HEADER + b"".join(map(_record, payloads))
    ),
)


@settings(max_examples=250, deadline=None)
@given(body=bodies, is_packed=st.booleans(), is_last=st.booleans())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, is_packed: bool, is_last: bool
) -> None:
    folder = tmp_path_factory.mktemp("j")
    if is_packed:
        packed = zstandard.ZstdCompressor().compress(body)
        (folder / "000000.journal.zst").write_bytes(packed)
    else:
        (folder / "000000.journal").write_bytes(body)
    if not is_last:
        (folder / "000001.journal").write_bytes(struct.pack("<8sII", b"ENVSJRNL", 1, 1))

    for read in (read_journal, read_live):
        with contextlib.suppress(JournalError):
            list(read(folder))
    with contextlib.suppress(JournalError), JournalWriter(folder) as writer:
        compact_journal(folder, writer.statistics()["segment"] + 1, lambda _: True)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_garbled_journal_is_read_as_far_as_it_is_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("j")
    whole = _whole(folder)
    (folder / "000000.journal").write_bytes(whole)
    entries = list(read_journal(folder))
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    garbled = whole[:start] + data.draw(st.binary(max_size=40)) + whole[end:]
    (folder / "000000.journal").write_bytes(garbled)

    read = []
    with contextlib.suppress(JournalError):
        read.extend(read_journal(folder))
    with contextlib.suppress(JournalError):
        list(read_journal(folder, strict=False))

    if garbled != whole:  # whole records may be cut out of it, but none is put in
        assert all(entry in entries for entry in read)


@pytest.mark.parametrize("name", ["000000.journal", "000000.journal.zst"])
def test_a_bomb_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    size_bytes = 96 * 1024 * 1024
    path = tmp_path / name
    if name.endswith("zst"):
        packer = zstandard.ZstdCompressor(level=1).compressobj(size=size_bytes)
        with path.open("wb") as file:
            file.write(packer.compress(HEADER))
            for _ in range(size_bytes // (1 << 20) - 1):
                file.write(packer.compress(bytes(1 << 20)))
            file.write(packer.compress(bytes((1 << 20) - len(HEADER))))
            file.write(packer.flush())
    else:
        with path.open("wb") as file:
            file.write(HEADER)
            file.truncate(size_bytes)
    (tmp_path / "000001.journal").write_bytes(struct.pack("<8sII", b"ENVSJRNL", 1, 1))

    tracemalloc.start()
    with pytest.raises(JournalError, match="damaged at byte 16"):
        list(read_journal(tmp_path))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < BYTES_MAX
