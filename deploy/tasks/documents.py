"""Office documents as bytes, the same bytes every time."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import docx
import openpyxl
import pptx
from openpyxl.styles import Font
from pptx.enum.text import PP_ALIGN
from pptx.util import Inches, Pt

Cell = str | int | None
Slide = Sequence[str]
"""The texts of a slide's boxes, top to bottom."""

_ZIP_DATE = (2024, 1, 1, 0, 0, 0)
_WRITTEN = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def workbook(
    rows: Sequence[Sequence[Cell]],
    bold: Sequence[str] = (),
    *,
    names: Sequence[str] = ("Sheet1",),
    formats: Mapping[str, str] = {},
    freeze: str = "",
    filtered: str = "",
) -> bytes:
    """An xlsx whose first sheet has these rows.

    Args:
        rows: all cells, row by row.
        bold: cells such as `B3`.
        names: of its sheets; those after the first are empty.
        formats: number formats by cell.
        freeze: the first cell that scrolls, if not all do.
        filtered: the range with an automatic filter, if any has.
    """
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = names[0]
    for row in rows:
        sheet.append(list(row))
    for name in bold:
        sheet[name].font = Font(name="Calibri", size=11, bold=True)
    for name, number_format in formats.items():
        sheet[name].number_format = number_format
    sheet.freeze_panes = freeze or None
    sheet.auto_filter.ref = filtered or None
    for name in names[1:]:
        book.create_sheet(name)
    return _fixed(book.save)


def letter(
    paragraphs: Sequence[str],
    *,
    spacing: float | None = None,
    table: Sequence[Sequence[str]] = (),
) -> bytes:
    """A docx of paragraphs, then a table if it has rows; `spacing` is in lines."""
    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text).paragraph_format.line_spacing = spacing
    if table:
        grid = document.add_table(len(table), len(table[0]))
        for row, texts in zip(grid.rows, table, strict=True):
            for cell, text in zip(row.cells, texts, strict=True):
                cell.text = text
    return _fixed(document.save)


def slides(
    pages: Sequence[Slide],
    *,
    bold: bool = False,
    italic: bool = False,
    underline: bool = False,
    strike: bool = False,
    align: PP_ALIGN | None = None,
) -> bytes:
    """A pptx of empty slides with text boxes, all of whose text is styled alike.

    Args:
        pages: the texts of each slide.
        bold: whether the text is; so are `italic`, `underline` and `strike`.
        align: where the lines of a box begin.
    """
    show = pptx.Presentation()
    for page in pages:
        slide = show.slides.add_slide(show.slide_layouts[6])
        for place, text in enumerate(page):
            box = slide.shapes.add_textbox(Inches(1), Inches(1 + 1.5 * place), Inches(7), Inches(1))
            box.text_frame.paragraphs[0].alignment = align
            run = box.text_frame.paragraphs[0].add_run()
            run.text = text
            run.font.size = Pt(18)
            run.font.bold, run.font.italic, run.font.underline = bold, italic, underline
            if strike:
                run.font._element.set("strike", "sngStrike")
    return _fixed(show.save)


def _fixed(save: Callable[[IO[bytes]], object]) -> bytes:
    """The saved zip with every member, and the document itself, dated alike."""
    saved, out = io.BytesIO(), io.BytesIO()
    save(saved)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.infolist():
            dated = zipfile.ZipInfo(member.filename, date_time=_ZIP_DATE)
            dated.compress_type = zipfile.ZIP_DEFLATED
            data = old.read(member)
            if member.filename == "docProps/core.xml":
                data = _WRITTEN.sub(b"2024-01-01T00:00:00Z", data)
            new.writestr(dated, data)
    return out.getvalue()
