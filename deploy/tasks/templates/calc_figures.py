"""Tasks about what the cells hold, in LibreOffice Calc: formulas, order, formats, words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.documents import Cell
from envs_node.deploy.tasks.office import menu, office_template, replace_all
from envs_node.deploy.tasks.osworld import Json
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep
from envs_node.deploy.tasks.templates.calc_sheets import sheet_task, stock_rows
from envs_node.messages.actions import Key, Type

Rows = list[list[Cell]]

_FUNCTIONS: dict[str, Callable[[Sequence[int]], int]] = {"SUM": sum, "MAX": max, "MIN": min}
_FORMATS = {"Percent": "0.00%", "Scientific": "0.00E+00"}


def _enter(text: str) -> tuple[OracleStep, ...]:
    """Types into the cell with the focus, and goes to the one below."""
    return (Type(text=text), Key(keys=("enter",)))


def _formula(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    function, column = chance.choice(list(_FUNCTIONS)), chance.choice("BC")
    place = "ABC".index(column)
    formula = f"={function}({column}2:{column}5)"
    figures = [cell for row in rows[1:] if isinstance(cell := row[place], int)]
    last: list[Cell] = [None, None, None]
    last[place] = _FUNCTIONS[function](figures)
    instruction = chance.choice(
        (
            f"Enter the formula {formula} in {column}6 and save the spreadsheet",
            f"Below the column, in {column}6, compute {formula}; then save the file",
        )
    )
    steps = (ClickOn("table cell", f"{column}6"), *_enter(formula))
    return sheet_task(instruction, rows, documents.workbook([*rows, last]), (), steps)


def _line_totals(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    formulas = [f"=B{row}*C{row}" for row in range(2, 6)]
    listed = ", ".join(formulas)
    instruction = chance.choice(
        (
            f"Head column D with 'total', fill D2 to D5 with {listed}, "
            "put =SUM(D2:D5) in D6 and save the workbook",
            f"Work out what each line is worth: D1 'total', then {listed} below it, "
            "their sum =SUM(D2:D5) in D6; save",
        )
    )
    worth = [b * c for _, b, c in rows[1:] if isinstance(b, int) and isinstance(c, int)]
    column: Rows = [["total"]]
    column += [[figure] for figure in worth]
    gold: Rows = [[*row, *cell] for row, cell in zip(rows, column, strict=True)]
    gold.append([None, None, None, sum(worth)])
    steps: tuple[OracleStep, ...] = (ClickOn("table cell", "D1"), *_enter("total"))
    for formula in (*formulas, "=SUM(D2:D5)"):
        steps += _enter(formula)
    return sheet_task(instruction, rows, documents.workbook(gold), (), steps)


def _sort(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    head, *lines = rows
    while lines in (sorted(lines, key=str), sorted(lines, key=str, reverse=True)):
        chance.shuffle(lines)
    order = chance.choice(("Ascending", "Descending"))
    wanted = sorted(lines, key=lambda line: str(line[0]), reverse=order == "Descending")
    instruction = chance.choice(
        (
            f"Sort the table by item, {order.lower()}, with Data > Sort... and save the file",
            f"With the Sort dialog bring the items into {order.lower()} order; save it",
        )
    )
    steps = (
        ClickOn("table cell", "A1"),
        *menu("Data", "Sort..."),
        ClickOn("radio button", order),
        ClickOn("push button", "OK"),
    )
    return sheet_task(instruction, [head, *lines], documents.workbook([head, *wanted]), (), steps)


def _number_format(chance: random.Random) -> Instance:
    rows, name = stock_rows(chance), chance.choice(list(_FORMATS))
    cell = f"{chance.choice('BC')}{chance.randint(2, 5)}"
    instruction = chance.choice(
        (
            f"Show cell {cell} as {name.lower()} (Format > Number Format) and save the file",
            f"Click {cell}, choose Format > Number Format > {name}, then save the spreadsheet",
        )
    )
    steps = (
        ClickOn("table cell", cell),
        *menu("Format", "Number Format", name, last="check menu item"),
    )
    rule: Json = {
        "type": "style",
        "sheet_idx0": "RI0",
        "sheet_idx1": "EI0",
        "props": ["number_format"],
    }
    gold = documents.workbook(rows, formats={cell: _FORMATS[name]})
    return sheet_task(instruction, rows, gold, (rule,), steps)


def _replace_word(chance: random.Random) -> Instance:
    rows = stock_rows(chance)
    old, new = str(chance.choice(rows[1:])[0]), chance.choice(words.PLACES)
    gold = [[new if cell == old else cell for cell in row] for row in rows]
    instruction = chance.choice(
        (
            f"Replace '{old}' by '{new}' in the whole sheet and save the file",
            f"Find all '{old}', put '{new}' in their place, and save the spreadsheet",
        )
    )
    # A list of what was replaced shows up, and has the keyboard.
    steps = (*replace_all(old, new), Key(keys=("escape",)), ClickOn("push button", "Close"))
    return sheet_task(instruction, rows, documents.workbook(gold), (), steps)


TEMPLATES = (
    office_template("calc-formula", "calc", "train", _formula),
    office_template("calc-line-totals", "calc", "train", _line_totals),
    office_template("calc-sort", "calc", "train", _sort),
    office_template("calc-number-format", "calc", "validation", _number_format),
    office_template("calc-replace-word", "calc", "held-out", _replace_word),
)
