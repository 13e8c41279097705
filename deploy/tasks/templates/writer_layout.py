"""Tasks about the look and the pages of a letter in LibreOffice Writer."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.office import alone_with_texts, menu, office_template
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep
from envs_node.deploy.tasks.templates.writer_text import (
    against_gold,
    letter_task,
    lines_of,
    ruled,
)
from envs_node.messages.actions import Key, Type

_SAME_LINES = against_gold("compare_docx_lines")
_ALL = Key(keys=("ctrl", "a"))
_END = Key(keys=("ctrl", "end"))


def _centre_title(chance: random.Random) -> Instance:
    lines = [f"The {chance.choice(words.PLACES)}", *lines_of(chance, 2)]
    instruction = chance.choice(
        (
            "Centre the first line of the letter and save it",
            "Put the heading in the middle with Format > Align Text > Centered, then save",
        )
    )
    steps = (
        Key(keys=("ctrl", "home")),
        *menu("Format", "Align Text", "Centered", last="radio menu item"),
    )
    judged = (alone_with_texts("writer", "is_first_line_centered", lines),)
    return letter_task(instruction, lines, documents.letter(lines), judged, steps)


def _line_spacing(chance: random.Random) -> Instance:
    lines, spacing = lines_of(chance, chance.randint(3, 5)), chance.choice((1.5, 2))
    instruction = chance.choice(
        (
            f"Select all the text, set Format > Spacing > Line Spacing: {spacing} and save it",
            f"Give the whole letter a line spacing of {spacing} lines, then save the file",
        )
    )
    item = f"Line Spacing: {spacing}"
    steps = (_ALL, *menu("Format", "Spacing", item, last="check menu item"))
    gold = documents.letter(lines, spacing=float(spacing))
    judged = (against_gold("compare_line_spacing"),)
    return letter_task(instruction, lines, gold, judged, steps)


def _page_break(chance: random.Random) -> Instance:
    lines, line = lines_of(chance, chance.randint(1, 3)), words.errand(chance)
    instruction = chance.choice(
        (
            f"At the end of the letter insert a page break, type '{line}' behind it and save",
            f"Start a second page (Insert > Page Break) with the text '{line}', then save it",
        )
    )
    steps = (_END, *menu("Insert", "Page Break"), Type(text=line))
    judged = (_SAME_LINES, ruled("contains_page_break", page_break_count=1))
    return letter_task(instruction, lines, documents.letter([*lines, line]), judged, steps)


def _page_number(chance: random.Random) -> Instance:
    lines = lines_of(chance, chance.randint(2, 4))
    instruction = chance.choice(
        (
            "Give the page a footer, insert the page number into it and save the letter",
            "Number the pages in the footer: Insert > Header and Footer > Footer, then "
            "Insert > Page Number; save",
        )
    )
    steps = (
        *menu(
            "Insert", "Header and Footer", "Footer", "Default Page Style", last="check menu item"
        ),
        *menu("Insert", "Page Number"),
    )
    judged = (alone_with_texts("writer", "has_page_numbers_in_footers", lines),)
    return letter_task(instruction, lines, documents.letter(lines), judged, steps)


def _table(chance: random.Random) -> Instance:
    line = words.errand(chance)
    things = words.pick(chance, words.THINGS, 4)
    grid = [things[:2], things[2:]]
    first, second = (f"'{left}' and '{right}'" for left, right in grid)
    instruction = chance.choice(
        (
            f"Below the text insert a table of two rows, {first}, then {second}; save the letter",
            f"At the end add a 2 by 2 table: above {first}, below {second}. Save it",
        )
    )
    steps: tuple[OracleStep, ...] = (
        _END,
        *menu("Table", "Insert Table..."),
        ClickOn("push button", "Insert"),
        Type(text=things[0]),
    )
    for thing in things[1:]:
        steps += (Key(keys=("tab",)), Type(text=thing))
    gold = documents.letter([line], table=grid)
    judged = (against_gold("compare_docx_tables"), _SAME_LINES)
    return letter_task(instruction, [line, ""], gold, judged, steps)


TEMPLATES = (
    office_template("writer-centre-title", "writer", "train", _centre_title),
    office_template("writer-line-spacing", "writer", "validation", _line_spacing),
    office_template("writer-page-break", "writer", "train", _page_break),
    office_template("writer-page-number", "writer", "held-out", _page_number),
    office_template("writer-table", "writer", "train", _table),
)
