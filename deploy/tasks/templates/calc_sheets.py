"""Tasks about whole sheets and their columns in LibreOffice Calc."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.documents import Cell
from envs_node.deploy.tasks.office import (
    SAVE,
    document_path,
    document_task,
    menu,
    office_template,
    retyped,
)
from envs_node.deploy.tasks.osworld import HOME, Json, compare
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep
from envs_node.messages.actions import Finish, Key

Rows = list[list[Cell]]

_PATH = document_path("calc")
_SHEET = {"sheet_idx0": "RI0", "sheet_idx1": "EI0"}
_SAME_NAMES: Json = {"type": "sheet_name"}
_SAME_CELLS: Json = {"type": "sheet_data", **_SHEET}


def stock_rows(chance: random.Random, things: int = 4) -> Rows:
    """A table of things with a count and a price each, below a line of headings."""
    table: Rows = [["item", "count", "price"]]
    for thing in words.pick(chance, words.THINGS, things):
        table.append([thing, chance.randint(1, 40), chance.randint(50, 99)])
    return table


def sheet_task(
    instruction: str,
    rows: Rows,
    gold: bytes,
    rules: tuple[Json, ...],
    steps: tuple[OracleStep, ...],
) -> Instance:
    """A task in a workbook with these rows; its cells and sheets are judged besides the rules."""
    evaluator = compare(
        "compare_table", _PATH, "stock.xlsx", rules=[_SAME_NAMES, _SAME_CELLS, *rules]
    )
    before = documents.workbook(rows)
    return document_task("calc", instruction, before, evaluator, steps + SAVE, {"stock.xlsx": gold})


def _rename_sheet(chance: random.Random) -> Instance:
    rows, name = stock_rows(chance), chance.choice(words.PLACES)
    instruction = chance.choice(
        (
            f"Rename the sheet to '{name}' with Sheet > Rename Sheet... and save the file",
            f"Call the sheet of this workbook '{name}' instead of Sheet1, then save it",
        )
    )
    steps = (
        *menu("Sheet", "Rename Sheet..."),
        *retyped(name),
        ClickOn("push button", "OK"),
    )
    return sheet_task(instruction, rows, documents.workbook(rows, names=(name,)), (), steps)


def _append_sheet(chance: random.Random) -> Instance:
    rows, name = stock_rows(chance), chance.choice(words.STEMS)
    instruction = chance.choice(
        (
            f"Add an empty sheet '{name}' behind Sheet1 and save the workbook",
            f"With Sheet > Insert Sheet at End... append a sheet named '{name}', then save",
        )
    )
    steps = (
        *menu("Sheet", "Insert Sheet at End..."),
        *retyped(name),
        ClickOn("push button", "OK"),
    )
    gold = documents.workbook(rows, names=("Sheet1", name))
    return sheet_task(instruction, rows, gold, (), steps)


def _freeze(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    what, cell = chance.choice((("Row", "A2"), ("Column", "B1")))
    instruction = chance.choice(
        (
            f"Keep the first {what.lower()} in sight while scrolling, and save the file",
            f"Use View > Freeze Cells > Freeze First {what}, then save the spreadsheet",
        )
    )
    steps = menu("View", "Freeze Cells", f"Freeze First {what}")
    rule: Json = {"type": "freeze", **_SHEET}
    return sheet_task(instruction, rows, documents.workbook(rows, freeze=cell), (rule,), steps)


def _delete_lines(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    row = chance.randint(2, 5)
    column = chance.choice("BC")
    place = "ABC".index(column)
    if chance.random() < 0.5:
        kept, what, item = [*rows[: row - 1], *rows[row:]], f"row {row}", "Delete Rows"
    else:
        kept = [[*line[:place], *line[place + 1 :]] for line in rows]
        what, item = f"column {column}", "Delete Columns"
    instruction = chance.choice(
        (
            f"Delete {what} of the table altogether and save the file",
            f"Click {column}{row}, use Sheet > {item} so that {what} is gone, and save",
        )
    )
    steps = (ClickOn("table cell", f"{column}{row}"), *menu("Sheet", item))
    return sheet_task(instruction, rows, documents.workbook(kept), (), steps)


def _filter(chance: random.Random) -> Instance:
    count = chance.randint(3, 6)
    rows = stock_rows(chance, count)
    cell = chance.choice(("A1", "B1", "C1"))
    instruction = chance.choice(
        (
            f"Click {cell}, switch on Data > AutoFilter for the table and save the spreadsheet",
            f"Give the headings filter buttons with Data > AutoFilter (start from {cell}); save",
        )
    )
    steps = (
        ClickOn("table cell", cell),
        *menu("Data", "AutoFilter", last="check menu item"),
    )
    gold = documents.workbook(rows, filtered=f"A1:C{count + 1}")
    rule: Json = {"type": "filter", **_SHEET}
    return sheet_task(instruction, rows, gold, (rule,), steps)


def _save_as_csv(chance: random.Random) -> Instance:
    rows, stem = stock_rows(chance), chance.choice(words.STEMS)
    name = f"{stem}.csv"
    instruction = chance.choice(
        (
            f"Save this sheet as '{name}' in the same folder, with commas between the fields",
            f"Press ctrl+shift+s and keep a copy of the table as text: '{name}'",
        )
    )
    text = "".join(",".join(str(cell) for cell in row) + "\n" for row in rows)
    steps = (
        Key(keys=("ctrl", "shift", "s")),
        *retyped(name),
        Key(keys=("enter",)),
        ClickOn("push button", "OK"),
        Finish(),
    )
    evaluator = compare("compare_csv", f"{HOME}/{name}", name)
    gold = {name: text.encode()}
    return document_task("calc", instruction, documents.workbook(rows), evaluator, steps, gold)


TEMPLATES = (
    office_template("calc-rename-sheet", "calc", "train", _rename_sheet),
    office_template("calc-append-sheet", "calc", "validation", _append_sheet),
    office_template("calc-freeze", "calc", "train", _freeze),
    office_template("calc-delete-line", "calc", "held-out", _delete_lines),
    office_template("calc-filter", "calc", "train", _filter),
    office_template("calc-save-csv", "calc", "train", _save_as_csv),
)
