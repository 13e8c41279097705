"""What the three office domains share: a document as it was, and as it should become."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import docx
import openpyxl
import pptx
from docx.document import Document
from openpyxl.workbook import Workbook
from pptx.presentation import Presentation

from envs_node.policy.task_files import Part
from tests.osworld.playing import Case, Hands, result_path

Make = Callable[[], bytes]


def text(*paragraphs: str, edit: Callable[[Document], None] | None = None) -> bytes:
    """A docx of paragraphs, changed by `edit`."""
    document = docx.Document()
    for each in paragraphs:
        document.add_paragraph().add_run(each)
    if edit is not None:
        edit(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def show(*pages: tuple[str, str], edit: Callable[[Presentation], None] | None = None) -> bytes:
    """A pptx of slides with a title and a body, changed by `edit`."""
    presentation = pptx.Presentation()
    for title, body in pages:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        for shape, said in zip(slide.placeholders, (title, body), strict=True):
            shape.text_frame.paragraphs[0].add_run().text = said
    if edit is not None:
        edit(presentation)
    out = io.BytesIO()
    presentation.save(out)
    return out.getvalue()


def sheet(
    rows: tuple[tuple[object, ...], ...], edit: Callable[[Workbook], None] | None = None
) -> bytes:
    """An xlsx with the sheet `Sheet1`, changed by `edit`."""
    book = openpyxl.Workbook()
    book.active.title = "Sheet1"
    for row in rows:
        book.active.append(list(row))
    if edit is not None:
        edit(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def document_case(
    domain: str,
    task_id: str,
    before: Make,
    after: Make,
    solve: Callable[[Hands], None] | None = None,
) -> Case:
    """A task that wants one document to become another.

    Args:
        solve: drives the application; without it the finished document is put in place.
    """
    return Case(
        domain=domain,
        id=task_id,
        how="driven" if solve else "files",
        solve=solve or partial(_put, after),
        make=partial(_make, before, after),
    )


def _put(after: Make, hands: Hands) -> None:
    hands.put(result_path(hands.task), after())


def _make(before: Make, after: Make, _name: str, part: Part) -> bytes:
    return before() if part == "files" else after()
