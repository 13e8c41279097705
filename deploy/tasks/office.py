"""What tasks in all parts of LibreOffice share: one open document, changed by menus, and saved."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from envs_node.deploy.tasks.osworld import HOME, Json, launch, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Split, Template
from envs_node.messages.actions import Finish, Key, Type

_Component = Literal["calc", "writer", "impress"]

_DOCUMENTS: dict[_Component, str] = {
    "calc": "stock.xlsx",
    "writer": "letter.docx",
    "impress": "talk.pptx",
}
# Prints each paragraph that has text, of all parts of a document whose names begin alike.
_PARAGRAPHS = """
import sys, zipfile
from xml.etree import ElementTree
with zipfile.ZipFile(sys.argv[1]) as file:
    for name in sorted(name for name in file.namelist() if name.startswith(sys.argv[2])):
        for node in ElementTree.fromstring(file.read(name)).iter():
            text = "".join(t.text or "" for t in node.iter() if t.tag.endswith("}t"))
            if text and node.tag.endswith("}p"):
                print(text)
""".strip()
_PARTS: dict[_Component, str] = {"writer": "word/document.xml", "impress": "ppt/slides/slide"}

SAVE = (Key(keys=("ctrl", "s")), Finish())


def document_path(component: _Component) -> str:
    """Where the open document of a task lies on the desktop."""
    return f"{HOME}/{_DOCUMENTS[component]}"


def document_task(
    component: _Component,
    instruction: str,
    before: bytes,
    evaluator: Json,
    solution: tuple[OracleStep, ...],
    gold: Mapping[str, bytes] = {},
) -> Instance:
    """A task that begins with a document open.

    Args:
        component: the part of LibreOffice.
        instruction: what is to be done.
        before: the document as it is opened.
        evaluator: what is judged.
        solution: all steps, with those that save and finish.
        gold: what the evaluator compares with, by name.
    """
    name = _DOCUMENTS[component]
    path = document_path(component)
    return Instance(
        instruction=instruction,
        config=(
            upload(name),
            launch("soffice", "--norestore", "--nologo", f"--{component}", path),
        ),
        evaluator=evaluator,
        oracle=solution,
        files={name: before},
        gold=gold,
    )


def alone_with_texts(component: _Component, metric: str, texts: Sequence[str]) -> Json:
    """An evaluator: a metric that takes a document alone, and that its paragraphs are these.

    OSWorld gives gold to all metrics of an evaluator or to none. So what the second one compares
    with is an option of it.
    """
    path = document_path(component)
    command = ["python3", "-c", _PARAGRAPHS, path, _PARTS[component]]
    return {
        "func": [metric, "exact_match"],
        "conj": "and",
        "result": [
            {"type": "vm_file", "path": path, "dest": f"result-{_DOCUMENTS[component]}"},
            {"type": "vm_command_line", "command": command},
        ],
        "options": [{}, {"rules": {"expected": "".join(f"{text}\n" for text in texts)}}],
    }


def office_template(
    name: str, component: _Component, split: Split, make: Callable[[random.Random], Instance]
) -> Template:
    """A template of tasks in one part of LibreOffice."""
    app = f"libreoffice_{component}"
    return Template(name=name, app=app, category=component, split=split, make=make)


def menu(*names: str, last: str = "menu item") -> tuple[OracleStep, ...]:
    """Clicks through menus to an entry of this role."""
    *menus, entry = names
    return (*(ClickOn("menu", name) for name in menus), ClickOn(last, entry))


def retyped(text: str) -> tuple[OracleStep, ...]:
    """Types over all that the field with the focus holds."""
    return (Key(keys=("ctrl", "a")), Type(text=text))


def replace_all(old: str, new: str) -> tuple[OracleStep, ...]:
    """Replaces a word in the whole document, by the dialog that all parts of LibreOffice have."""
    return (
        ClickOn("toggle button", "Find and Replace"),
        Type(text=old),
        ClickOn("text", "Replace:"),
        Type(text=new),
        ClickOn("push button", "Replace All"),
    )
