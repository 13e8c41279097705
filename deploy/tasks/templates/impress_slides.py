"""Tasks about the slides of a talk in LibreOffice Impress: their order, number, shape and text."""

from __future__ import annotations

import random

from pptx.enum.text import PP_ALIGN

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
from envs_node.deploy.tasks.templates.impress import LOOSE
from envs_node.messages.actions import Key, Type

_PATH = document_path("impress")
_NEXT = menu("Slide", "Navigate", "To Next Slide")


def _pages(chance: random.Random, count: int) -> list[list[str]]:
    """Slides of one line each, all different."""
    lines: dict[str, None] = {}
    while len(lines) < count:
        lines[words.errand(chance)] = None
    return [[line] for line in lines]


def _same_slides() -> Json:
    return compare("compare_pptx_files", _PATH, "talk.pptx", **LOOSE)


def _ruled(metric: str, **rules: object) -> Json:
    talk: Json = {"type": "vm_file", "path": _PATH, "dest": "result-talk.pptx"}
    return {"func": metric, "result": talk, "expected": {"type": "rule", "rules": rules}}


def _talk_task(
    instruction: str,
    pages: list[list[str]],
    gold: bytes,
    steps: tuple[OracleStep, ...],
    evaluator: Json | None = None,
) -> Instance:
    """A task in a talk of these slides, judged by what the slides show unless told otherwise."""
    return document_task(
        "impress",
        instruction,
        documents.slides(pages),
        evaluator or _same_slides(),
        steps + SAVE,
        {"talk.pptx": gold},
    )


def _go_to(slide: int) -> tuple[OracleStep, ...]:
    """From the first slide, counted from 0, to another."""
    return _NEXT * slide


def _delete_slide(chance: random.Random) -> Instance:
    pages, place = _pages(chance, 3), chance.randrange(3)
    instruction = chance.choice(
        (
            f"Delete slide {place + 1} and save the presentation",
            f"Take slide {place + 1} out of the talk with Slide > Delete Slide, then save it",
        )
    )
    kept = [page for index, page in enumerate(pages) if index != place]
    steps = (*_go_to(place), *menu("Slide", "Delete Slide"))
    return _talk_task(instruction, pages, documents.slides(kept), steps)


def _duplicate_slide(chance: random.Random) -> Instance:
    pages, place = _pages(chance, 2), chance.randrange(2)
    instruction = chance.choice(
        (
            f"Duplicate slide {place + 1} and save the presentation",
            f"Show slide {place + 1} twice in a row (Slide > Duplicate Slide), then save the talk",
        )
    )
    doubled = pages[: place + 1] + pages[place:]
    steps = (*_go_to(place), *menu("Slide", "Duplicate Slide"))
    return _talk_task(instruction, pages, documents.slides(doubled), steps)


def _move_slide(chance: random.Random) -> Instance:
    pages, place = _pages(chance, 4), chance.randrange(2)
    item, to = chance.choice((("Slide Down", place + 1), ("Slide to End", 3)))
    instruction = chance.choice(
        (
            f"Go to slide {place + 1}, use Slide > Move > {item} and save the presentation",
            f"Make slide {place + 1} slide number {to + 1} ({item}), then save the talk",
        )
    )
    moved = [page for index, page in enumerate(pages) if index != place]
    moved.insert(to, pages[place])
    steps = (*_go_to(place), *menu("Slide", "Move", item))
    return _talk_task(instruction, pages, documents.slides(moved), steps)


def _portrait(chance: random.Random) -> Instance:
    pages = _pages(chance, chance.randint(1, 3))
    instruction = chance.choice(
        (
            "Turn the slides upright: Slide > Slide Properties..., Portrait, OK; then save",
            "Change the orientation of the slides to portrait and save the presentation",
        )
    )
    steps = (
        *menu("Slide", "Slide Properties..."),
        ClickOn("radio button", "Portrait"),
        ClickOn("push button", "OK"),
    )
    texts = [page[0] for page in pages]
    evaluator = alone_with_texts("impress", "check_slide_orientation_Portrait", texts)
    return _talk_task(instruction, pages, documents.slides(pages), steps, evaluator)


def _strike(chance: random.Random) -> Instance:
    pages = [[each[0] for each in _pages(chance, 2)]]
    instruction = chance.choice(
        (
            "Strike through all text of the slide (Format > Text > Strikethrough) and save it",
            "Select everything on the slide, choose Strikethrough and save the presentation",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")),
        *menu("Format", "Text", "Strikethrough", last="check menu item"),
    )
    struck = _ruled(
        "check_strikethrough", slide_index_s=[0], shape_index_s=[0, 1], paragraph_index_s=[0]
    )
    # LibreOffice writes down that a text is not struck, which satisfies the second alone.
    evaluator = all_of(_same_slides(), struck)
    gold = documents.slides(pages, strike=True)
    return _talk_task(instruction, pages, gold, steps, evaluator)


def _align(chance: random.Random) -> Instance:
    pages = [[each[0] for each in _pages(chance, chance.randint(1, 3))]]
    item, align = chance.choice((("Center", PP_ALIGN.CENTER), ("Right", PP_ALIGN.RIGHT)))
    instruction = chance.choice(
        (
            f"Select everything on the slide, use Format > Align Text > {item} and save it",
            f"Align all texts of the slide: {item.lower()}. Then save the presentation",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")),
        *menu("Format", "Align Text", item, last="radio menu item"),
    )
    return _talk_task(instruction, pages, documents.slides(pages, align=align), steps)


def _replace_word(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.THINGS, 2)
    days = words.pick(chance, words.DAYS, 3)
    pages = [[f"{chance.choice(words.VERBS)} {old} {day}"] for day in days]
    gold = [[page[0].replace(old, new)] for page in pages]
    instruction = chance.choice(
        (
            f"Replace '{old}' by '{new}' on all slides and save the presentation",
            f"With Find and Replace turn every '{old}' into '{new}', then save the talk",
        )
    )
    steps = (*replace_all(old, new), ClickOn("push button", "Close"))
    return _talk_task(instruction, pages, documents.slides(gold), steps)


def _rewrite_slides(chance: random.Random) -> Instance:
    pages, wanted = _pages(chance, 2), _pages(chance, 2)
    (first,), (second,) = wanted
    instruction = chance.choice(
        (
            f"Let slide 1 say '{first}' and slide 2 '{second}' instead, and save the presentation",
            f"Retype both slides: '{first}' on the first, '{second}' on the second; save",
        )
    )
    steps = (*_retype(first), *_NEXT, *_retype(second))
    return _talk_task(instruction, pages, documents.slides(wanted), steps)


def _retype(text: str) -> tuple[OracleStep, ...]:
    """Types over the text of the only box of a slide, and lets go of it."""
    return (
        Key(keys=("tab",)),
        Key(keys=("f2",)),
        Key(keys=("ctrl", "a")),
        Type(text=text),
        Key(keys=("escape",)),
        Key(keys=("escape",)),
    )


TEMPLATES = (
    office_template("impress-delete-slide", "impress", "train", _delete_slide),
    office_template("impress-duplicate-slide", "impress", "train", _duplicate_slide),
    office_template("impress-move-slide", "impress", "validation", _move_slide),
    office_template("impress-portrait", "impress", "held-out", _portrait),
    office_template("impress-strike", "impress", "train", _strike),
    office_template("impress-align", "impress", "validation", _align),
    office_template("impress-replace-word", "impress", "train", _replace_word),
    office_template("impress-rewrite-slides", "impress", "train", _rewrite_slides),
)
