"""Any files in the folder of a journal: read, or refused as a `JournalError`; nothing gets lost.

An input is a list of files. Where a file is *sealed*, its bytes are a list of payloads that get
their lengths and checksums here, so that mutations reach what lies behind the checksums.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from envs_node.messages.base import ActorName
from envs_node.messages.journal import Entry, JournalError, JournalWriter, read_journal, read_live
from envs_node.messages.journal_archive import compact_journal
from envs_node.messages.journal_format import archive_path, frame, header, segment_path
from tests.fuzz import seeds as from_messages
from tests.fuzz.marks import Check, shape
from tests.fuzz.memory_folder import memory_folder

_BETWEEN = b"\xfe\xed\xfa\xce"
_FILES_MAX = 5
_SEALED, _PACKED, _ARCHIVE, _STRAY = 0x80, 0x40, 0x20, 0x10
_STRAYS = ("000000.journal.zst.partial", "000001.torn", "reserve", "0000x0.journal")
_ACTOR = ActorName("search/t")


def seeds() -> list[bytes]:
    """Journals as they are written, closed, archived, torn, and of bare payloads."""
    bodies = list(from_messages.envelopes())
    found = [_sealed(0, bodies[at : at + 2]) for at in range(0, len(bodies), 2)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with JournalWriter(folder, segment_bytes=1 << 20) as writer:
            for number in range(3):
                writer.append(_ACTOR, "started")
                writer.append(ActorName("replay/w-0"), "said", index=number)
                writer.append(ActorName("replay/w-0"), "ended")
                writer.rotate()
        plain = [segment_path(folder, number).read_bytes() for number in range(4)]
        compact_journal(folder, 2, lambda actor: actor == _ACTOR)
        packed = [archive_path(folder, number).read_bytes() for number in range(2)]
        rest = [segment_path(folder, number).read_bytes() for number in range(2)]
    numbered = [bytes([number]) + data for number, data in enumerate(plain)]
    archived = [bytes([_ARCHIVE | number]) + data for number, data in enumerate(packed)]
    lived = [bytes([number]) + data for number, data in enumerate(rest)]
    found.append(_BETWEEN.join(numbered))
    found.append(_BETWEEN.join([*archived, *lived, numbered[2]]))
    found.append(_BETWEEN.join([*archived, numbered[2][:-3]]))
    found.append(_BETWEEN.join([*archived, numbered[2] + bytes(9)]))
    found.append(_BETWEEN.join([bytes([_STRAY | 0]) + b"x", numbered[0], numbered[2]]))
    found.append(bytes([_PACKED | _ARCHIVE]) + plain[0])
    return found


@contextlib.contextmanager
def opened() -> Iterator[Check]:
    """The check of one input."""
    with memory_folder() as root:

        def check(data: bytes) -> Iterable[str]:
            folder = root / "j"
            folder.mkdir()
            try:
                _lay_out(folder, data)
                return list(_check(folder))
            finally:
                shutil.rmtree(folder)

        yield check


def _check(folder: Path) -> Iterator[str]:
    before, seen = _read(read_journal(folder), folder)
    yield f"strict {seen}"
    _, seen = _read(read_journal(folder, strict=False), folder)
    yield f"lax {seen}"
    live, seen = _read((record.entry() for record in read_live(folder)), folder)
    yield f"live {seen}"
    try:
        with JournalWriter(folder) as writer:
            writer.append(_ACTOR, "ended")
            with contextlib.suppress(JournalError):
                compact_journal(folder, writer.statistics()["segment"], lambda _: True)
    except JournalError as error:
        yield f"writer {_reason(error, folder)}"
        return
    after, seen = _read(read_journal(folder), folder)
    yield f"after {seen}"
    if before is not None and live is not None:
        ended = Entry(actor=_ACTOR, kind="ended")
        assert after == [*before, ended], "opening a journal changed what it holds"


def _read(entries: Iterator[Entry], folder: Path) -> tuple[list[Entry] | None, str]:
    """All entries, or None of a journal that is refused; and how it went."""
    try:
        read = list(entries)
    except JournalError as error:
        return None, _reason(error, folder)
    return read, f"{min(len(read), 4)} {read[-1].kind if read else ''}"


def _reason(error: JournalError, folder: Path) -> str:
    text = str(error).replace(f"{folder}/", "")
    return shape(re.sub(r"a record of .* holds", "", text, flags=re.DOTALL))


def _lay_out(folder: Path, data: bytes) -> None:
    for part in data.split(_BETWEEN, _FILES_MAX - 1):
        if not part:
            continue
        kind, body = part[0], part[1:]
        number = kind & 0x03
        if kind & _SEALED:
            body = header(number) + b"".join(map(frame, _payloads(body)))
        if kind & _PACKED:
            body = zstandard.ZstdCompressor(level=1).compress(body)
        place = archive_path if kind & _ARCHIVE else segment_path
        path = folder / _STRAYS[number] if kind & _STRAY else place(folder, number)
        path.write_bytes(body)


def _payloads(body: bytes) -> Iterator[bytes]:
    while len(body) > 2:
        (length,) = struct.unpack_from("<H", body)
        yield body[2 : 2 + length]
        body = body[2 + length :]


def _sealed(number: int, envelopes: list[bytes]) -> bytes:
    data = bytes([_SEALED | number])
    for body in envelopes:
        record = b"\x95" + b"\xa8search/t" + b"\xa5heard" + b"\xff" + b"\xa0" + body
        data += struct.pack("<H", len(record)) + record
    return data
