"""Tasks of the domain `multi_apps`: several programs, or one program's work with another."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from functools import partial

from docx.document import Document
from PIL import Image

from envs_node.policy.task_files import Part
from tests.osworld import media
from tests.osworld.office import sheet, text
from tests.osworld.playing import Case, Hands

_DESKTOP = "/home/user/Desktop"
_SORT = "values = [3, 1, 2]\nbubbleSort(values)\nprint(values)\n"
_CALCULATE = "print(add(2, 3))\n"
_CHECK_VIM = """#!/bin/bash
if grep -Eq '^set (nu|number)$' ~/.vimrc; then
  echo "The File Has Set Number!"
else
  echo "The File Has Not Set Number!"
fi
"""
_RESULTS = (("Model", "Score"), ("GPT-4", "12.24"))


def _zip(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, said in members.items():
            archive.writestr(f"{name}.py", said)
    return out.getvalue()


def _report(document: Document) -> None:
    table = document.add_table(rows=2, cols=2)
    for row, words in zip(table.rows, _RESULTS, strict=True):
        for cell, word in zip(row.cells, words, strict=True):
            cell.text = word


def _cropped() -> bytes:
    picture = media.photo()
    return media.encode(picture.crop((0, picture.height // 5, picture.width, picture.height)))


def _tiles(*order: int) -> bytes:
    colours = ((40, 60, 200), (200, 80, 40), (120, 120, 120))
    picture = Image.new("RGB", (300, 120))
    for place, tile in enumerate(order):
        picture.paste(colours[tile], (100 * place, 0, 100 * place + 100, 120))
        picture.paste(
            (0, 0, 0), (100 * place + 20, 20 + 30 * tile, 100 * place + 60, 50 + 20 * tile)
        )
    return media.encode(picture)


def _pdf(*, of: Image.Image) -> bytes:
    return media.encode(of, "PDF")


def _put(path: str, make: Callable[[], bytes], hands: Hands) -> None:
    hands.put(path, make())


def _type(command: str, hands: Hands) -> None:
    hands.type(f"{command}; touch /tmp/done\n")
    hands.run("until [ -f /tmp/done ]; do sleep 0.05; done")


def _find(files: Mapping[str, Callable[[], bytes]], name: str, _part: Part) -> bytes:
    return files[name]()


def _case(
    task_id: str,
    how: str,
    solve: Callable[[Hands], None],
    files: Mapping[str, Callable[[], bytes]],
) -> Case:
    return Case(domain="multi_apps", id=task_id, how=how, solve=solve, make=partial(_find, files))


CASES = (
    _case(
        "00fa164e-2612-4439-992e-157d019a8436",
        "files",
        partial(
            _put,
            "/home/user/Documents/awesome-desktop/awe_desk_env.docx",
            partial(text, "Main Results", edit=_report),
        ),
        {
            "awe_desk_env.docx": partial(text, "Main Results"),
            "results.xlsx": partial(sheet, (*_RESULTS, ("Other", "5.26"))),
            "awe_desk_env_gt.docx": partial(text, "Main Results", edit=_report),
        },
    ),
    _case(
        "20236825-b5df-46e7-89bf-62e1d640a897",
        "files",
        partial(_put, f"{_DESKTOP}/res.txt", lambda: b"[1, 2, 3]\n"),
        {
            "bubbleSort.zip": partial(_zip, bubbleSort=_SORT),
            "Bubble_Sort_tutorial.docx": partial(text, "Exchange neighbours until none is wrong."),
            "res.txt": lambda: b"[1, 2, 3]\n",
        },
    ),
    _case(
        "f918266a-b3e0-4914-865d-4faa564f1aef",
        "files",
        partial(_put, f"{_DESKTOP}/log.txt", lambda: b"5\n"),
        {
            "calculator.zip": partial(_zip, calculator=_CALCULATE),
            "log_Gold.txt": lambda: b"5\n",
        },
    ),
    _case(
        "91190194-f406-4cd6-b3f9-c43fac942b22",
        "files",
        partial(_put, f"{_DESKTOP}/cropped.png", _cropped),
        {
            "cola.png": lambda: media.encode(media.photo()),
            "cropped_gold.png": _cropped,
        },
    ),
    _case(
        "d68204bf-11c1-4b13-b48b-d303c73d4bf6",
        "files",
        partial(_put, f"{_DESKTOP}/rearranged.png", partial(_tiles, 0, 2, 1)),
        {
            "tilearray.png": partial(_tiles, 1, 0, 2),
            "rearranged_gold.png": partial(_tiles, 0, 2, 1),
        },
    ),
    _case(
        "a503b07f-9119-456b-b75d-f5146737d24f",
        "files",
        partial(_put, f"{_DESKTOP}/receipt.pdf", lambda: _pdf(of=media.photo())),
        {
            "OIP.jpg": lambda: media.encode(media.photo(), "JPEG"),
            "receipt_Gold.pdf": lambda: _pdf(of=media.photo()),
        },
    ),
    _case(
        "b337d106-053f-4d37-8da0-7f9c4043a66b",
        "driven",
        partial(_type, "echo 'set number' >> ~/.vimrc"),
        {"eval.sh": _CHECK_VIM.encode},
    ),
)
"""Each with its solution."""
