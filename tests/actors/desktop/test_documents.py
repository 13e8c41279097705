"""The digest of working files sees what was written, and not when."""

from __future__ import annotations

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
