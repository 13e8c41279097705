"""Tasks in LibreOffice Writer."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.osworld import HOME, Json, all_of, compare, launch, prints, upload
from envs_node.deploy.tasks.template import Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

_PATH = f"{HOME}/letter.docx"
_SAVE = (Key(keys=("ctrl", "s")), Finish())

# Prints a line a run that has text: which of b, i, u it has, then the text. OSWorld has no metric
# for these, and its text metric would accept a document without them.
_RUNS = """
import sys, zipfile
from xml.etree import ElementTree
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
with zipfile.ZipFile(sys.argv[1]) as file:
    root = ElementTree.fromstring(file.read("word/document.xml"))
for run in root.iter(W + "r"):
    text = "".join(node.text or "" for node in run.iter(W + "t"))
    style = run.find(W + "rPr")
    found = [style.find(W + name) for name in "biu"] if style is not None else [None] * 3
    on = [node is not None and node.get(W + "val") not in ("false", "0", "none") for node in found]
    if text:
        print("".join(n for n, yes in zip("biu", on) if yes) or "-", text)
""".strip()


def _instance(
    instruction: str, before: list[str], evaluator: Json, after: list[str],
    solution: tuple[OracleStep, ...],
) -> Instance:  # fmt: skip
    return Instance(
        instruction=instruction,
        config=(
            upload("letter.docx"),
            launch("soffice", "--norestore", "--nologo", "--writer", _PATH),
        ),
        evaluator=evaluator,
        oracle=solution + _SAVE,
        files={"letter.docx": documents.letter(before)},
        gold={"letter.docx": documents.letter(after)},
    )


def _same_text() -> Json:
    return compare("compare_docx_files", _PATH, "letter.docx", ignore_blanks=False)


def _append_line(chance: random.Random) -> Instance:
    lines, line = [words.errand(chance) for _ in range(2)], words.errand(chance)
    instruction = chance.choice(
        (
            f"Press ctrl+end, type '{line}' and save the document",
            f"Add '{line}' at the end of the letter, then save it",
        )
    )
    steps = (Key(keys=("ctrl", "end")), Type(text=line))
    return _instance(instruction, [*lines, ""], _same_text(), [*lines, line], steps)


def _styled(chance: random.Random, letter: str, style: str) -> Instance:
    lines = [words.errand(chance) for _ in range(2)]
    instruction = chance.choice(
        (
            f"Select everything with ctrl+a, press ctrl+{letter} and save the document",
            f"Make the whole text {style}: ctrl+a, then ctrl+{letter}, then save it",
        )
    )
    listing = "".join(f"{letter} {line}\n" for line in lines)
    evaluator = all_of(_same_text(), prints(["python3", "-c", _RUNS, _PATH], listing))
    steps = (Key(keys=("ctrl", "a")), Key(keys=("ctrl", letter)))
    return _instance(instruction, lines, evaluator, lines, steps)


def _bold_all(chance: random.Random) -> Instance:
    return _styled(chance, "b", "bold")


def _italic_all(chance: random.Random) -> Instance:
    return _styled(chance, "i", "italic")


TEMPLATES = (
    Template(
        name="writer-append-line", app="libreoffice_writer", category="writer", split="train",
        make=_append_line, is_in_demo=True,
    ),
    Template(
        name="writer-bold-all", app="libreoffice_writer", category="writer", split="train",
        make=_bold_all, is_in_demo=True,
    ),
    Template(
        name="writer-italic-all", app="libreoffice_writer", category="writer", split="held-out",
        make=_italic_all, is_in_demo=True,
    ),
)  # fmt: skip
