"""The digest of working files sees what was written, and not when."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import pytest

from envs_node.actors.desktop.signature import files_digest


def _document(path: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as document:
        for name, text in parts.items():
            document.writestr(name, text)
    return path


def _digest_of(home: Path, name: str, parts: dict[str, str]) -> str:
    _document(home / name, parts)
    return files_digest(home)


@pytest.mark.parametrize("mark", ["docProps/core.xml", "meta.xml", "settings.xml"])
def test_when_a_document_was_saved_does_not_count(tmp_path: Path, mark: str) -> None:
    first = _digest_of(tmp_path, "a.xlsx", {"xl/sheet1.xml": "<c>7</c>", mark: "10:00"})
    later = _digest_of(tmp_path, "a.xlsx", {"xl/sheet1.xml": "<c>7</c>", mark: "10:01"})

    assert first == later


def test_what_a_document_holds_counts(tmp_path: Path) -> None:
    seven = _digest_of(tmp_path, "a.xlsx", {"xl/sheet1.xml": "<c>7</c>"})
    eight = _digest_of(tmp_path, "a.xlsx", {"xl/sheet1.xml": "<c>8</c>"})

    assert seven != eight


def test_a_date_field_of_a_slide_does_not_count_and_its_text_does(tmp_path: Path) -> None:
    slide = '<p><a:fld id="{%s}" type="datetime1"><a:t>%s</a:t></a:fld><a:t>%s</a:t></p>'
    name = "ppt/slideLayouts/slideLayout1.xml"

    monday = _digest_of(tmp_path, "a.pptx", {name: slide % ("A1", "Monday", "Hello")})
    friday = _digest_of(tmp_path, "a.pptx", {name: slide % ("B2", "Friday", "Hello")})
    goodbye = _digest_of(tmp_path, "a.pptx", {name: slide % ("A1", "Monday", "Goodbye")})

    assert monday == friday
    assert monday != goodbye


def test_a_damaged_document_counts_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK torn")
    first = files_digest(tmp_path)
    (tmp_path / "a.docx").write_bytes(b"PK torn!")

    assert files_digest(tmp_path) != first


def _locked(path: Path, *, flags: int, packed_how: int) -> None:
    """A slide whose entries claim to be locked, or packed in some way."""
    data = bytearray(_document(path, {"ppt/slide1.xml": "<a/>"}).read_bytes())
    for mark, flag_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(mark)
        data[place + flag_at] |= flags
        data[place + flag_at + 2] = packed_how
    path.write_bytes(data)


@pytest.mark.parametrize(("flags", "packed_how"), [(1, 0), (0, 99), (0, 8), (0, 12), (0, 14)])
def test_a_document_that_cannot_be_unpacked_counts_by_its_bytes(
    tmp_path: Path, flags: int, packed_how: int
) -> None:
    _locked(tmp_path / "a.pptx", flags=flags, packed_how=packed_how)
    first = files_digest(tmp_path)
    with (tmp_path / "a.pptx").open("r+b") as document:
        document.seek(10)  # a time of day, in the part's own header
        document.write(b"\x77")

    assert files_digest(tmp_path) != first


def test_fields_that_never_end_cost_no_more_than_others(tmp_path: Path) -> None:
    slide = "<a:fld>" * 500_000
    _document(tmp_path / "a.pptx", {"ppt/slide1.xml": slide})
    start = time.monotonic()
    files_digest(tmp_path)

    assert time.monotonic() - start < 5  # quadratic: hours
