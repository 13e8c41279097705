"""Tasks in LibreOffice Impress."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.osworld import HOME, compare, launch, upload
from envs_node.deploy.tasks.template import Instance, OracleStep, Template
from envs_node.messages.actions import Finish, Key, Type

_PATH = f"{HOME}/talk.pptx"
_SAVE = (Key(keys=("ctrl", "s")), Finish())
LOOSE = {
    "examine_shape": False,
    "examine_font_name": False,
    "examine_color_rgb": False,
    "examine_bullets": False,
    "examine_background_color": False,
}
"""LibreOffice writes its own outlines, fonts and backgrounds. Texts, sizes, styles and where a line
begins stay judged."""


def _instance(
    instruction: str, before: list[list[str]], gold: bytes, solution: tuple[OracleStep, ...]
) -> Instance:
    return Instance(
        instruction=instruction,
        config=(
            upload("talk.pptx"),
            launch("soffice", "--norestore", "--nologo", "--impress", _PATH),
        ),
        evaluator=compare("compare_pptx_files", _PATH, "talk.pptx", **LOOSE),
        oracle=solution + _SAVE,
        files={"talk.pptx": documents.slides(before)},
        gold={"talk.pptx": gold},
    )


def _bold_all(chance: random.Random) -> Instance:
    pages = [[words.errand(chance), words.errand(chance)]]
    instruction = chance.choice(
        (
            "Select everything with ctrl+a, press ctrl+b and save the presentation",
            "Make the whole slide bold: ctrl+a, then ctrl+b, then save it",
        )
    )
    steps = (Key(keys=("ctrl", "a")), Key(keys=("ctrl", "b")))
    return _instance(instruction, pages, documents.slides(pages, bold=True), steps)


def _replace_title(chance: random.Random) -> Instance:
    before, after = words.errand(chance), words.errand(chance)
    instruction = chance.choice(
        (
            f"Press tab, press f2, press ctrl+a, type '{after}', press escape and save",
            f"With tab, f2 and ctrl+a mark the text, type '{after}', press escape and save it",
        )
    )
    steps = (
        Key(keys=("tab",)),
        Key(keys=("f2",)),
        Key(keys=("ctrl", "a")),
        Type(text=after),
        Key(keys=("escape",)),
    )
    return _instance(instruction, [[before]], documents.slides([[after]]), steps)


def _clear_slide(chance: random.Random) -> Instance:
    pages = [[words.errand(chance)], [words.errand(chance)]]
    instruction = chance.choice(
        (
            "Select everything with ctrl+a, press delete and save the presentation",
            "Empty the slide: ctrl+a, then the delete key, then save it",
        )
    )
    steps = (Key(keys=("ctrl", "a")), Key(keys=("delete",)))
    return _instance(instruction, pages, documents.slides([[], pages[1]]), steps)


TEMPLATES = (
    Template(
        name="impress-bold-all", app="libreoffice_impress", category="impress", split="train",
        make=_bold_all, is_in_demo=True,
    ),
    Template(
        name="impress-replace-text", app="libreoffice_impress", category="impress", split="train",
        make=_replace_title, is_in_demo=True,
    ),
    Template(
        name="impress-clear-slide", app="libreoffice_impress", category="impress", split="held-out",
        make=_clear_slide, is_in_demo=True,
    ),
)  # fmt: skip
