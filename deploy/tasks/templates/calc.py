"""Tasks in LibreOffice Calc."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.documents import Cell
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

Rows = list[list[Cell]]

_PATH = f"{HOME}/stock.xlsx"
_SAVE = (Key(keys=("ctrl", "s")), Finish())
_CELLS = ("B2", "B3", "B4", "C2", "C3", "C4")
_RULES: list[Json] = [
    {"type": "sheet_name"},
    {"type": "sheet_data", "sheet_idx0": "RI0", "sheet_idx1": "EI0"},
    {"type": "style", "sheet_idx0": "RI0", "sheet_idx1": "EI0", "props": ["font_bold"]},
]


def _instance(
    instruction: str, before: Rows, gold: bytes, solution: tuple[OracleStep, ...]
) -> Instance:
    command = ("soffice", "--norestore", "--nologo", "--calc", _PATH)
    return Instance(
        instruction=instruction,
        config=(upload("stock.xlsx"), launch(*command)),
        evaluator=compare("compare_table", _PATH, "stock.xlsx", rules=_RULES),
        oracle=solution + _SAVE,
        files={"stock.xlsx": documents.workbook(before)},
        gold={"stock.xlsx": gold},
    )


def _rows(chance: random.Random) -> Rows:
    table: Rows = [["item", "count", "price"]]
    for thing in words.pick(chance, words.THINGS, 4):
        table.append([thing, chance.randint(1, 40), chance.randint(50, 99)])
    return table


def _with(rows: Rows, cell: str, value: Cell) -> Rows:
    column, row = "ABC".index(cell[0]), int(cell[1:]) - 1
    changed = [list(each) for each in rows]
    changed[row][column] = value
    return changed


def _set_cell(chance: random.Random) -> Instance:
    rows, cell, value = _rows(chance), chance.choice(_CELLS), chance.randint(101, 999)
    instruction = chance.choice(
        (
            f"Set cell {cell} to {value} and save the spreadsheet",
            f"Click cell {cell}, type {value}, press enter and save the spreadsheet",
        )
    )
    steps = (ClickOn("table cell", cell), Type(text=str(value)), Key(keys=("enter",)))
    return _instance(instruction, rows, documents.workbook(_with(rows, cell, value)), steps)


def _clear_cell(chance: random.Random) -> Instance:
    rows, cell = _rows(chance), chance.choice(_CELLS)
    instruction = chance.choice(
        (
            f"Click cell {cell}, press delete and save the spreadsheet",
            f"Empty cell {cell} with the delete key, then save the file",
        )
    )
    steps = (ClickOn("table cell", cell), Key(keys=("delete",)))
    return _instance(instruction, rows, documents.workbook(_with(rows, cell, None)), steps)


def _bold_cell(chance: random.Random) -> Instance:
    rows, cell = _rows(chance), chance.choice(_CELLS)
    instruction = chance.choice(
        (
            f"Click cell {cell}, press ctrl+b and save the spreadsheet",
            f"Make cell {cell} bold with ctrl+b, then save the file",
        )
    )
    steps = (ClickOn("table cell", cell), Key(keys=("ctrl", "b")))
    return _instance(instruction, rows, documents.workbook(rows, bold=(cell,)), steps)


TEMPLATES = (
    Template(
        name="calc-set-cell", app="libreoffice_calc", category="calc", split="train",
        make=_set_cell, is_in_demo=True,
    ),
    Template(
        name="calc-clear-cell", app="libreoffice_calc", category="calc", split="train",
        make=_clear_cell, is_in_demo=True,
    ),
    Template(
        name="calc-bold-cell", app="libreoffice_calc", category="calc", split="held-out",
        make=_bold_cell, is_in_demo=True,
    ),
)  # fmt: skip
