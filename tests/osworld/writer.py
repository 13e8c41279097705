"""Tasks of the domain `libreoffice_writer`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docx.document import Document
from docx.enum.text import WD_BREAK
from docx.shared import Pt

from tests.osworld.office import document_case, text
from tests.osworld.playing import Case, Hands

_STORY = (
    "The Harbour",
    "Boats come in at dawn. The crew sells fish on the quay.",
    "By noon the market is empty, and nobody is in a hurry.",
)
_SHOUTED = tuple(line.upper() for line in _STORY)
_WATER = ("Water is written H2O.", "It boils at 100 degrees.")
_ROWS = ("a,b,c", "d,e,f")


def _strike_last(document: Document) -> None:
    for run in document.paragraphs[-1].runs:
        run.font.strike = True


def _space(*spacings: float | None) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for paragraph, spacing in zip(document.paragraphs, spacings, strict=True):
            paragraph.paragraph_format.line_spacing = spacing

    return edit


def _font(name: str) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for paragraph in document.paragraphs:
            for run in paragraph.runs:
                run.font.name = name

    return edit


def _water(*, is_low: bool) -> bytes:
    def edit(document: Document) -> None:
        paragraph = document.paragraphs[0]
        paragraph.clear()
        paragraph.add_run("Water is written H")
        paragraph.add_run("2").font.subscript = is_low or None
        paragraph.add_run("O.")

    return text(*_WATER, edit=edit)


def _number_pages(document: Document) -> None:
    document.sections[0].footer.paragraphs[0].text = "1"


def _break_pages(count: int) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for _ in range(count):
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
            document.add_paragraph().add_run("Next page.")

    return edit


def _slant(size: int) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        run = document.paragraphs[0].add_run(" by the sea")
        run.italic = True
        run.font.size = Pt(size)

    return edit


def _table(document: Document) -> None:
    table = document.add_table(rows=len(_ROWS), cols=3)
    for row, line in zip(table.rows, _ROWS, strict=True):
        for cell, word in zip(row.cells, line.split(","), strict=True):
            cell.text = word


def _empty_table(document: Document) -> None:
    document.add_table(rows=5, cols=7)


def _press(*presses: str) -> Callable[[Hands], None]:
    def solve(hands: Hands) -> None:
        for keys in presses:
            hands.press(keys)

    return solve


_case = partial(document_case, "libreoffice_writer")
_story = partial(text, *_STORY)
CASES: tuple[Case, ...] = (
    _case(
        "0810415c-bde4-4443-9047-d5f70165a697",
        _story,
        partial(text, *_STORY, edit=_space(2.0, 2.0, None)),
    ),
    _case(
        "b21acd93-60fd-4127-8a43-2f5178f4a830",
        _story,
        partial(text, *_STORY, edit=_space(1.0, 2.0, 1.5)),
    ),
    _case("3ef2b351-8a84-4ff2-8724-d86eae9b842e", _story, _story, _press("ctrl+home", "ctrl+e")),
    _case(
        "ecc2413d-8a48-416e-a3a2-d30106ca36cb",
        partial(text, *_STORY, edit=_break_pages(4)),
        _story,
        _press("ctrl+end", "ctrl+enter"),
    ),
    _case(
        "72b810ef-4156-4d09-8f08-a0cf57e7cefe",
        _story,
        partial(text, *_STORY, edit=_strike_last),
    ),
    _case(
        "0e763496-b6bb-4508-a427-fad0b6c3e195",
        _story,
        partial(text, *_STORY, edit=_font("Times New Roman")),
    ),
    _case(
        "0b17a146-2934-46c7-8727-73ff6b6483e8",
        partial(_water, is_low=False),
        partial(_water, is_low=True),
    ),
    _case(
        "0e47de2a-32e0-456c-a366-8c607ef7a9d2",
        _story,
        partial(text, *_STORY, edit=_number_pages),
    ),
    _case(
        "e246f6d8-78d7-44ac-b668-fcf47946cb50",
        partial(text, *_STORY, edit=_slant(12)),
        partial(text, *_STORY, edit=_slant(14)),
    ),
    _case(
        "d53ff5ee-3b1a-431e-b2be-30ed2673079b",
        partial(text, *_SHOUTED),
        partial(text, *(line.lower() for line in _SHOUTED)),
    ),
    _case(
        "e528b65e-1107-4b8c-8988-490e4fece599",
        _story,
        partial(text, *(line.title() for line in _STORY)),
    ),
    _case(
        "66399b0d-8fda-4618-95c4-bfc6191617e9",
        _story,
        partial(text, *_STORY, edit=_empty_table),
    ),
)
"""Each with its solution."""
