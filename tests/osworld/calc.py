"""Tasks of the domain `libreoffice_calc`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from openpyxl.workbook import Workbook

from tests.osworld.office import document_case, sheet
from tests.osworld.playing import Case, Hands

_SALES = (("Week", "Sales", "COGS"), (1, 900, 400), (2, 1200, 650), (3, 700, 500))
_PROFIT = (("Week", "Sales", "COGS", "Profit"), *((*row, row[1] - row[2]) for row in _SALES[1:]))
_LEVELS = (("Name", "Level"), ("Ann", "A"), ("Bob", None), ("Cid", "B"), ("Dan", None))
_FILLED = (("Name", "Level"), ("Ann", "A"), ("Bob", "A"), ("Cid", "B"), ("Dan", "B"))
_SERIAL = (("Seq No.", "Sales"), (None, 50), (None, 60), (None, 70))
_NUMBERED = (("Seq No.", "Sales"), ("No. 1", 50), ("No. 2", 60), ("No. 3", 70))
_TWICE = (("Names with duplicates", "Unique Names"), ("Ann", None), ("Bob", None), ("Ann", None))
_ONCE = (("Names with duplicates", "Unique Names"), ("Ann", "Ann"), ("Bob", "Bob"), ("Ann", None))
_MOVED = (("Date", "First Name", "Last Name", "Order ID", "Sales"), ("May", "Ann", "Lee", 7, 50))
_UNMOVED = (("Order ID", "Date", "First Name", "Last Name", "Sales"), (7, "May", "Ann", "Lee", 50))
_AMOUNTS = (("Item", "Amount"), ("pen", 30), ("cup", 10), ("hat", 20))
_SORTED = (_AMOUNTS[0], *sorted(_AMOUNTS[1:], key=lambda row: int(str(row[1]))))
_TITLES = (("Garbage Movie Titles", "Clean Movie Titles"), ("  the   bIg sleep ", None))
_CLEAN = (_TITLES[0], (_TITLES[1][0], "The Big Sleep"))
_MISSING = (("Date", "Budget"), ("May", 50), ("June", "N/A"), ("July", 70))
_HOURS = ((None,) * 5, ("", "", "Total hours", "Hourly rate", "Earned"))


def _type(cell: str, words: str) -> Callable[[Hands], None]:
    """Go to a cell by its name, and type; a newline goes to the cell below."""

    def solve(hands: Hands) -> None:
        hands.press("ctrl+shift+t")
        hands.type(f"{cell}\n")
        hands.type(words)

    return solve


def _revenue(book: Workbook) -> None:
    other = book.create_sheet("Sheet2")
    for row in book["Sheet1"].iter_rows(min_col=2, max_col=2, values_only=True):
        other.append(row)


def _freeze(book: Workbook) -> None:
    book.active.freeze_panes = "C2"


def _zoom(percent: int) -> Callable[[Workbook], None]:
    def edit(book: Workbook) -> None:
        book.active.sheet_view.zoomScale = percent

    return edit


def _hide(book: Workbook) -> None:
    book.active.row_dimensions[3].hidden = True


def _hours() -> bytes:
    return sheet((*_HOURS, ("", "", 57.5, 10 / 3, None)))


def _earned() -> bytes:
    return sheet((*_HOURS, ("", "", 57.5, 10 / 3, 191.6667)))


_case = partial(document_case, "libreoffice_calc")
CASES: tuple[Case, ...] = (
    _case(
        "1e8df695-bd1b-45b3-b557-e7d599cf7597",
        partial(sheet, _SALES),
        partial(sheet, _PROFIT),
        _type("D1", "Profit\n=B2-C2\n=B3-C3\n=B4-C4\n"),
    ),
    _case(
        "01b269ae-2111-4a07-81fd-3fcd711993b0",
        partial(sheet, _LEVELS),
        partial(sheet, _FILLED),
        _type("B3", "A\n\nB\n"),
    ),
    _case(
        "7efeb4b1-3d19-4762-b163-63328d66303b",
        partial(sheet, _SERIAL),
        partial(sheet, _NUMBERED),
        _type("A2", "No. 1\nNo. 2\nNo. 3\n"),
    ),
    _case("357ef137-7eeb-4c80-a3bb-0951f26a8aff", _hours, _earned, _type("E3", "=C3*D3\n")),
    _case(
        "abed40dc-063f-4598-8ba5-9fe749c0615d",
        partial(sheet, _TWICE),
        partial(sheet, _ONCE),
        _type("B2", "Ann\nBob\n"),
    ),
    _case(
        "1273e544-688f-496b-8d89-3e0f40aa0606",
        partial(sheet, (("Day", "Revenue"), ("May", 50), ("June", 70))),
        partial(sheet, (("Day", "Revenue"), ("May", 50), ("June", 70)), _revenue),
    ),
    _case(
        "4188d3a4-077d-46b7-9c86-23e1a036f6c1",
        partial(sheet, _SALES),
        partial(sheet, _SALES, _freeze),
    ),
    _case(
        "1334ca3e-f9e3-4db8-9ca7-b4c653be7d17",
        partial(sheet, _SALES, _zoom(260)),
        partial(sheet, _SALES, _zoom(100)),
    ),
    _case(
        "51b11269-2ca8-4b2a-9163-f21758420e78",
        partial(sheet, _AMOUNTS),
        partial(sheet, _SORTED),
    ),
    _case(
        "7a4e4bc8-922c-4c84-865c-25ba34136be1",
        partial(sheet, _UNMOVED),
        partial(sheet, _MOVED),
    ),
    _case(
        "a9f325aa-8c05-4e4f-8341-9e4358565f4f",
        partial(sheet, _TITLES),
        partial(sheet, _CLEAN),
    ),
    _case(
        "6054afcb-5bab-4702-90a0-b259b5d3217c",
        partial(sheet, _MISSING),
        partial(sheet, _MISSING, _hide),
    ),
)
"""Each with its solution."""
