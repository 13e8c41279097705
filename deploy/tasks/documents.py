"""Office documents as bytes, the same bytes every time."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import IO

import docx
import openpyxl
import pptx
from openpyxl.styles import Font
from pptx.util import Inches, Pt

Cell = str | int | None
Slide = Sequence[str]
"""The texts of a slide's boxes, top to bottom."""

_ZIP_DATE = (2024, 1, 1, 0, 0, 0)
_WRITTEN = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def workbook(rows: Sequence[Sequence[Cell]], bold: Sequence[str] = ()) -> bytes:
    """An xlsx with one sheet named `Sheet1`; `bold` names cells such as `B3`."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sheet1"
    for row in rows:
        sheet.append(list(row))
    for name in bold:
        sheet[name].font = Font(name="Calibri", size=11, bold=True)
    return _fixed(book.save)


def letter(paragraphs: Sequence[str]) -> bytes:
    """A docx of plain paragraphs."""
    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    return _fixed(document.save)


def slides(
    pages: Sequence[Slide], *, bold: bool = False, italic: bool = False, underline: bool = False
) -> bytes:
    """A pptx of empty slides with text boxes, all of whose text is styled alike."""
    show = pptx.Presentation()
    for page in pages:
        slide = show.slides.add_slide(show.slide_layouts[6])
        for place, text in enumerate(page):
            box = slide.shapes.add_textbox(Inches(1), Inches(1 + 1.5 * place), Inches(7), Inches(1))
            run = box.text_frame.paragraphs[0].add_run()
            run.text = text
            run.font.size = Pt(18)
            run.font.bold, run.font.italic, run.font.underline = bold, italic, underline
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
