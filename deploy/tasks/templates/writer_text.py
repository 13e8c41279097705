"""Tasks about the words and lines of a letter in LibreOffice Writer."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.office import (
    SAVE,
    alone_with_texts,
    document_path,
    document_task,
    menu,
    office_template,
    replace_all,
)
from envs_node.deploy.tasks.osworld import Json, all_of, compare
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep
from envs_node.messages.actions import Key, Type

_PATH = document_path("writer")
_ALL = Key(keys=("ctrl", "a"))
_END = Key(keys=("ctrl", "end"))


def letter_task(
    instruction: str,
    before: list[str],
    after: bytes,
    evaluators: tuple[Json, ...],
    steps: tuple[OracleStep, ...],
) -> Instance:
    """A task in a letter of these lines, judged by all evaluators."""
    evaluator = evaluators[0] if len(evaluators) == 1 else all_of(*evaluators)
    return document_task(
        "writer",
        instruction,
        documents.letter(before),
        evaluator,
        steps + SAVE,
        {"letter.docx": after},
    )


def against_gold(metric: str, **options: object) -> Json:
    """An evaluator: the letter against the gold one."""
    return compare(metric, _PATH, "letter.docx", **options)


def ruled(metric: str, **rules: object) -> Json:
    """An evaluator of the letter alone, by rules."""
    letter: Json = {"type": "vm_file", "path": _PATH, "dest": "ruled-letter.docx"}
    return {"func": metric, "result": letter, "expected": {"type": "rule", "rules": rules}}


def lines_of(chance: random.Random, count: int) -> list[str]:
    """Different short lines."""
    lines: dict[str, None] = {}
    while len(lines) < count:
        lines[words.errand(chance)] = None
    return list(lines)


def _replace_word(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.THINGS, 2)
    days = words.pick(chance, words.DAYS, 3)
    before = [f"{chance.choice(words.VERBS)} {old} {day}" for day in days]
    after = [line.replace(old, new) for line in before]
    instruction = chance.choice(
        (
            f"Replace every '{old}' in the letter by '{new}' and save it",
            f"With Find and Replace turn '{old}' into '{new}' throughout, then save the letter",
        )
    )
    steps = (*replace_all(old, new), ClickOn("push button", "Close"))
    judged = (against_gold("compare_docx_files", ignore_blanks=False),)
    return letter_task(instruction, before, documents.letter(after), judged, steps)


def _sort_lines(chance: random.Random) -> Instance:
    lines = lines_of(chance, chance.randint(4, 6))
    while lines in (sorted(lines), sorted(lines, reverse=True)):
        chance.shuffle(lines)
    order = chance.choice(("Ascending", "Descending"))
    wanted = sorted(lines, reverse=order == "Descending")
    instruction = chance.choice(
        (
            f"Select the whole letter, sort its lines with Tools > Sort... ({order}) and save it",
            f"Bring all lines into {order.lower()} order with the Sort dialog, then save",
        )
    )
    steps = (
        _ALL,
        *menu("Tools", "Sort..."),
        ClickOn("radio button", order),
        ClickOn("push button", "OK"),
    )
    judged = (against_gold("compare_docx_files", ignore_blanks=False),)
    return letter_task(instruction, lines, documents.letter(wanted), judged, steps)


def _lower_case(chance: random.Random) -> Instance:
    lines = lines_of(chance, 3)
    loud = chance.randrange(3)
    lines[loud] = lines[loud].upper()
    instruction = chance.choice(
        (
            "Select all the text, use Format > Text > lowercase and save the letter",
            "Turn every letter of the text into a small one, then save the file",
        )
    )
    quiet = [line.lower() for line in lines]
    steps = (_ALL, *menu("Format", "Text", "lowercase"))
    gold = documents.letter(quiet)
    judged = (alone_with_texts("writer", "evaluate_conversion", quiet),)
    return letter_task(instruction, lines, gold, judged, steps)


def _struck_line(chance: random.Random) -> Instance:
    *lines, line = lines_of(chance, 3)
    instruction = chance.choice(
        (
            f"Go to the end, switch on Strikethrough, type '{line}' and save the letter",
            f"Add '{line}' as the last line, struck through (Format > Text), and save it",
        )
    )
    steps = (
        _END,
        *menu("Format", "Text", "Strikethrough", last="check menu item"),
        Type(text=line),
    )
    judged = (against_gold("evaluate_strike_through_last_paragraph"),)
    return letter_task(instruction, [*lines, ""], documents.letter([*lines, line]), judged, steps)


def _three_lines(chance: random.Random) -> Instance:
    first, *added = lines_of(chance, 4)
    listed = ", ".join(f"'{line}'" for line in added)
    instruction = chance.choice(
        (
            f"Write three further lines below the first, {listed}, each its own paragraph; save",
            f"Go to the end and add the paragraphs {listed} one below the other, then save",
        )
    )
    steps: tuple[OracleStep, ...] = (_END,)
    for line in added:
        steps += (Key(keys=("enter",)), Type(text=line))
    judged = (
        against_gold("compare_docx_lines"),
        against_gold("compare_init_lines"),
    )
    return letter_task(instruction, [first], documents.letter([first, *added]), judged, steps)


TEMPLATES = (
    office_template("writer-replace-word", "writer", "train", _replace_word),
    office_template("writer-sort-lines", "writer", "train", _sort_lines),
    office_template("writer-lower-case", "writer", "train", _lower_case),
    office_template("writer-struck-line", "writer", "held-out", _struck_line),
    office_template("writer-three-lines", "writer", "validation", _three_lines),
)
