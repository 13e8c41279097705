"""What the metrics of bundled tasks take for right, and what not: texts, settings, office files.

OSWorld's metrics are called as they are. Where one is laxer than one would think, it stands here.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docx
import msgspec
import openpyxl
import pytest

from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.deploy.tasks.documents import letter, slides, workbook
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import Vocabulary, read_task, task_json
from tests.actors.verifier.conftest import Guest

ROWS = [["item", "count"], ["pens", 3], ["ink", 12]]
TEXTS = ["Dear Anna,", "see you on Monday."]
PAGES = [["Title", "first line"], ["Second"]]
RULES = [
    {"type": "sheet_name"},
    {"type": "sheet_data", "sheet_idx0": "RI0", "sheet_idx1": "EI0"},
    {"type": "style", "sheet_idx0": "RI0", "sheet_idx1": "EI0", "props": ["font_bold"]},
]
PLAIN = {
    f"examine_{name}": False
    for name in ("shape", "font_name", "color_rgb", "bullets", "background_color")
}


def _resaved(data: bytes) -> bytes:
    """As another program would write it: the same cells, other bytes."""
    out = io.BytesIO()
    openpyxl.load_workbook(io.BytesIO(data)).save(out)
    return out.getvalue()


def _titled(data: bytes) -> bytes:
    book, out = openpyxl.load_workbook(io.BytesIO(data)), io.BytesIO()
    book.active.title = "Sheet2"
    book.save(out)
    return out.getvalue()


def _bold_letter() -> bytes:
    document, out = docx.Document(), io.BytesIO()
    for text in TEXTS:
        document.add_paragraph().add_run(text).bold = True
    document.save(out)
    return out.getvalue()


class Metric(NamedTuple):
    """A metric, and what it is given."""

    dest: str
    """Name of the result; some metrics go by how it ends."""
    gold: bytes | dict[str, Any] | str
    """A file, or what a rule expects."""
    right: list[bytes]
    wrong: list[bytes | None]
    """None where the file is missing."""
    options: dict[str, Any] | None = None


WORKBOOK, LETTER, SLIDES = workbook(ROWS, ["A1"]), letter(TEXTS), slides(PAGES, bold=True)
SUITE = b"""
import importlib.util
from pathlib import Path


def test():
    spec = importlib.util.spec_from_file_location("e", Path(__file__).with_name("trips.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double(2) == 4
"""
METRICS = {
    "compare_text_file": Metric(
        "a.txt",
        b"one\ntwo\n",
        [b"one\ntwo\n", b"one\r\ntwo\r\n", b"one\rtwo\r"],
        [b"one\ntwo\n ", b"One\ntwo\n", b"one\ntwo\ntwo\n", b"", None],
    ),
    "compare_config": Metric(
        "a.ini",
        "[a]\nb = 1\n",
        [b"[a]\nb = 1\n", b"[a]\r\nb = 1\r\n", b"[a]\rb = 1\r"],
        [b"[a]\nb = 1", b"[a]\nb=1\n", b"[A]\nb = 1\n", b"[a]\nb = 1\n[a.old]\n", None],
    ),
    "check_json_settings": Metric(
        "a.json",
        {"a": 1, "b": False},
        [b'{"a": 1, "b": false}', b'{"b": false, "a": 1.0}', b'{"a": 1, "b": false, "more": 2}'],
        [b'{"a": "1", "b": false}', b'{"a": 1}', b'{"A": 1, "b": false}', b'{"a": 1,}', None],
    ),
    "compare_csv": Metric(
        "a.csv",
        b"item,count\nsalt,46\n",
        [b"item,count\nsalt,46\n", b"item,count\nsalt,46", b"item,count\r\nsalt,46\r\n"],
        [b"item,count\nSalt,46\n", b"item,count\nsalt,46\nrye,1\n", b"item,count\n", b"", None],
    ),
    "check_python_file_by_test_suite": Metric(
        "trips.py",
        SUITE,
        [b"def double(n):\n    return 2 * n\n", b"double = lambda n: n + n",
         b"def double(n):\n    return 4"],
        [b"def double(n):\n    return n\n", b"def double(n) return 4", b"import sys; sys.exit(0)",
         b"def Double(n): return 4", None],
        {"test_function_name": "test"},
    ),
    "compare_table": Metric(
        "a.xlsx",
        WORKBOOK,
        [WORKBOOK, _resaved(WORKBOOK), workbook([*ROWS, [None, None]], ["A1"])],
        [
            workbook([*ROWS, ["glue", 1]], ["A1"]),
            workbook([["Item", "count"], *ROWS[1:]], ["A1"]),
            workbook(ROWS),
            _titled(WORKBOOK),
            b"no workbook",
            None,
        ],
        {"rules": RULES},
    ),
    "compare_docx_files": Metric(
        "a.docx",
        LETTER,
        [LETTER, letter(TEXTS), _bold_letter()],
        [
            letter([*TEXTS, "P.S."]),
            letter(["dear Anna,", TEXTS[1]]),
            letter(["Dear  Anna,", TEXTS[1]]),
            None,
        ],
        {"ignore_blanks": False},
    ),
    "compare_pptx_files": Metric(
        "a.pptx",
        SLIDES,
        [SLIDES, slides(PAGES, bold=True), slides([list(page) for page in PAGES], bold=True)],
        [
            slides([*PAGES, ["Third"]], bold=True),
            slides([["title", "first line"], ["Second"]], bold=True),
            slides(PAGES),
            None,
        ],
        PLAIN,
    ),
}  # fmt: skip
"""Lax, and OSWorld's own: settings beyond those wanted are right, and so is a letter in bold."""
LINES = {
    True: ["agenda.txt\noffice/\n"],
    False: ["agenda.txt\noffice/", "Agenda.txt\noffice/\n", "agenda.txt\noffice\n", "agenda.txt\n",
            "agenda.txt\nold.txt\noffice/\n", ""],
}  # fmt: skip


def _cases(is_right: bool) -> list[Any]:
    return [
        pytest.param(metric, data, id=f"{metric}-{number}")
        for metric, given in METRICS.items()
        for number, data in enumerate(given.right if is_right else given.wrong)
    ]


@pytest.fixture(scope="module")
def make(vocabulary: Vocabulary) -> Callable[[str], Task]:
    """Make a task of a metric that compares files."""

    def make(metric: str) -> Task:
        given = METRICS[metric]
        expected: dict[str, Any] = {"type": "rule", "rules": {"expected": given.gold}}
        files = {}
        if isinstance(given.gold, bytes):
            files = {"gold/gold": given.gold}
            expected = {
                "type": "cloud_file",
                "path": "bundle://gold/gold",
                "dest": f"gold{Path(given.dest).suffix}",
            }
        evaluator = {
            "func": metric,
            "result": {"type": "vm_file", "path": "/home/user/a", "dest": given.dest},
            "expected": expected,
            **({"options": given.options} if given.options else {}),
        }
        task = {"id": "near", "instruction": "Do it.", "evaluator": evaluator}
        return read_task(msgspec.json.encode(task), files, vocabulary, file="near.json")

    return make


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """One desktop for all: each test says what is on it."""
    guest = Guest(tmp_path_factory.mktemp("desktop"), "sound")
    yield guest
    guest.end()


@pytest.mark.parametrize(("metric", "data"), _cases(True))
def test_what_is_right_is_a_success_in_every_variant(checker, guest, make, metric, data):
    guest.write("/home/user/a", data)

    verdict = checker.verify(make(metric), guest.pid, "DONE")

    assert (verdict.verdict, verdict.reason) == ("success", "")


@pytest.mark.parametrize(("metric", "data"), _cases(False))
def test_a_near_miss_is_none(checker, guest, make, metric, data):
    (guest.folder / "home" / "user" / "a").unlink(missing_ok=True)
    if data is not None:
        guest.write("/home/user/a", data)

    verdict = checker.verify(make(metric), guest.pid, "DONE")

    assert verdict.verdict == "failure"


@pytest.mark.parametrize(
    ("said", "is_right"), [(said, is_right) for is_right in LINES for said in LINES[is_right]]
)
def test_a_list_of_names_is_right_or_it_is_not(checker, guest, make_task, said, is_right):
    guest.write("names", said.encode())
    task = make_task(
        func="exact_match",
        result={"type": "vm_command_line", "command": ["cat", "names"]},
        expected={"type": "rule", "rules": {"expected": LINES[True][0]}},
    )

    verdict = checker.verify(task, guest.pid, "DONE")

    assert (verdict.verdict == "success") == is_right


def test_every_metric_here_is_one_of_the_bundled_tasks():
    used: set[str] = set()
    for split in ("train", "validation", "held-out"):
        for task in bundled_tasks(split, 1):
            func = task_json(task)["evaluator"]["func"]
            used |= set(func if isinstance(func, list) else [func])

    assert {*METRICS, "exact_match"} <= used
