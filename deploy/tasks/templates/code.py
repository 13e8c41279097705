"""Tasks in a text editor that change programs and settings of programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.evaluators import holds, passes_suite
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, upload
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Split, Template
from envs_node.messages.actions import Finish, Key, Type

_SAVE = Key(keys=("ctrl", "s"))
_SUITE = '''"""Holds the file beside this one to what the task says."""

import importlib.util
from pathlib import Path

PATH = Path(__file__).with_name("{name}")


def load():
    spec = importlib.util.spec_from_file_location("edited", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test():
    module, text = load(), PATH.read_text()
    return {claim}
'''


def _instance(
    app: str,
    file: tuple[str, str],
    instruction: str,
    evaluator: Json,
    steps: Iterable[OracleStep],
    gold: dict[str, bytes] | None = None,
) -> Instance:
    """One file, open in an editor, to be changed and saved."""
    name, text = file
    return Instance(
        instruction=instruction,
        config=(upload(name), launch(app, f"{HOME}/{name}")),
        evaluator=evaluator,
        oracle=(*steps, _SAVE, Finish()),
        files={name: text.encode()},
        gold=gold or {},
    )


def _tested(
    app: str, file: tuple[str, str], instruction: str, claim: str, steps: Iterable[OracleStep]
) -> Instance:
    """A Python file, judged by what it does."""
    suite = _SUITE.format(name=file[0], claim=claim).encode()
    evaluator = passes_suite(f"{HOME}/{file[0]}", "suite.py")
    return _instance(app, file, instruction, evaluator, steps, {"suite.py": suite})


def _compared(
    app: str, file: tuple[str, str], instruction: str, after: str, steps: Iterable[OracleStep]
) -> Instance:
    """A text, judged to the letter."""
    evaluator = compare("compare_text_file", f"{HOME}/{file[0]}", file[0])
    return _instance(app, file, instruction, evaluator, steps, {file[0]: after.encode()})


def _go_to(line: int) -> tuple[OracleStep, ...]:
    """To the beginning of a line after the first."""
    return (Key(keys=("ctrl", "home")), Key(keys=("down",), count=line - 1))


def _replace_line(line: int, text: str) -> tuple[OracleStep, ...]:
    return (*_go_to(line), Key(keys=("shift", "end")), Type(text=text))


def _replace_all(old: str, new: str) -> tuple[OracleStep, ...]:
    """Everywhere, in gedit."""
    return (
        Key(keys=("ctrl", "h")), Type(text=old), Key(keys=("tab",)), Type(text=new),
        ClickOn("push button", "Replace All"), Key(keys=("escape",)),
    )  # fmt: skip


def _rename_function(chance: random.Random) -> Instance:
    old, new = (f"count_{thing}" for thing in words.pick(chance, words.THINGS, 2))
    place, stem = chance.choice(words.PLACES), chance.choice(words.STEMS)
    text = (
        f"def {old}(rows):\n    return len([row for row in rows if row])\n\n\n"
        f"def in_{place}(rows):\n    return {old}(rows) * 2\n"
    )
    instruction = chance.choice(
        (
            f"Rename the function {old} to {new} wherever it is used, and save the file",
            f"Replace all '{old}' by '{new}' in this program and save it",
        )
    )
    claim = f"{old!r} not in text and module.{new}([1, 0]) == 1 and module.in_{place}([1]) == 2"
    return _tested("gedit", (f"{stem}.py", text), instruction, claim, _replace_all(old, new))


_BUGS = (
    ("return a - b", "return a + b", "sum", "module.{f}(7, 5) == 12"),
    ("return a + b", "return a * b", "product", "module.{f}(7, 5) == 35"),
    ("return min(a, b)", "return max(a, b)", "larger one", "module.{f}(7, 5) == 7"),
    ("return a < b", "return a == b", "equality", "module.{f}(4, 4) and not module.{f}(3, 4)"),
)


def _fix_bug(chance: random.Random) -> Instance:
    wrong, right, meaning, claim = chance.choice(_BUGS)
    thing, stem = chance.choice(words.THINGS), chance.choice(words.STEMS)
    function, head = f"of_{thing}", f"# {words.errand(chance)}\n\n\n"
    text = (
        f"{head}def {function}(a, b):\n    # The {meaning} of both.\n    {wrong}\n\n\n"
        f"def twice(a):\n    return 2 * a\n"
    )
    instruction = chance.choice(
        (
            f"The comment in {function} says what it is for, but line 6 is wrong: correct it and"
            f" save the file",
            f"Fix the function {function}, so that it returns the {meaning} of both arguments, and"
            f" save",
        )
    )
    steps = _replace_line(6, f"    {right}")
    whole = f"{claim.format(f=function)} and module.twice(4) == 8"
    return _tested("mousepad", (f"{stem}.py", text), instruction, whole, steps)


def _write_function(chance: random.Random) -> Instance:
    thing, stem = chance.choice(words.THINGS), chance.choice(words.STEMS)
    number = chance.randint(3, 9)
    function, head = f"pack_{thing}", f"# {words.errand(chance)}\n"
    instruction = chance.choice(
        (
            f"Write a function {function}(n) at the end of this Python file that returns n times"
            f" {number}, and save it",
            f"Add to this program a function named {function} with one parameter n; it returns"
            f" {number} * n. Save the file",
        )
    )
    written = f"\n\ndef {function}(n):\n    return n * {number}\n"
    steps = (Key(keys=("ctrl", "end")), Type(text=written))
    claim = f"module.{function}(4) == {4 * number} and text.startswith({head!r})"
    return _tested("mousepad", (f"{stem}.py", head), instruction, claim, steps)


def _settings(chance: random.Random) -> dict[str, object]:
    first, second, third = words.pick(chance, words.THINGS, 3)
    return {
        first: chance.randint(1, 40),
        second: chance.choice(words.PLACES),
        third: chance.choice((True, False)),
    }


def _json_text(settings: dict[str, object]) -> str:
    return msgspec.json.format(msgspec.json.encode(settings), indent=4).decode() + "\n"


def _change_json(chance: random.Random) -> Instance:
    settings, stem = _settings(chance), chance.choice(words.STEMS)
    key, value = next(iter(settings)), chance.randint(41, 99)
    instruction = chance.choice(
        (
            f"Set {key} to {value} in this settings file and save it",
            f'Change the value of "{key}" to the number {value}, leave the rest alone, and save',
        )
    )
    steps = _replace_line(2, f'    "{key}": {value},')
    path = f"{HOME}/{stem}.json"
    evaluator = holds("check_json_settings", path, settings | {key: value})
    file = (f"{stem}.json", _json_text(settings))
    return _instance("mousepad", file, instruction, evaluator, steps)


def _add_json_key(chance: random.Random) -> Instance:
    settings, stem = _settings(chance), chance.choice(words.STEMS)
    key = chance.choice([thing for thing in words.THINGS if thing not in settings])
    place = chance.choice(words.PLACES)
    instruction = chance.choice(
        (
            f'Add the setting "{key}" with the value "{place}" to this JSON file and save it',
            f"In these settings, {key} is missing: add it with the text '{place}' and save the"
            f" file, which must remain valid JSON",
        )
    )
    entry = f'    "{key}": "{place}",\n'
    steps = (*_go_to(2), Type(text=entry))
    path = f"{HOME}/{stem}.json"
    evaluator = holds("check_json_settings", path, settings | {key: place})
    file = (f"{stem}.json", _json_text(settings))
    return _instance("mousepad", file, instruction, evaluator, steps)


def _recolour_sheet(chance: random.Random) -> Instance:
    old, new = (f"#{chance.randrange(16**6):06x}" for _ in range(2))
    first, second = words.pick(chance, words.PLACES, 2)
    text = (
        f".{first} {{\n    color: {old};\n    border: 1px solid {old};\n}}\n\n"
        f".{second} {{\n    color: #000001;\n    background: {old};\n}}\n"
    )
    instruction = chance.choice(
        (
            f"Use {new} instead of the colour {old} in the whole style sheet, and save it",
            f"Replace all '{old}' by '{new}' and save the file",
        )
    )
    return _compared(
        "gedit", (f"{first}.css", text), instruction, text.replace(old, new),
        _replace_all(old, new),
    )  # fmt: skip


def _change_ini(chance: random.Random) -> Instance:
    first, second, key = words.pick(chance, words.STEMS, 3)
    old, new = words.pick(chance, words.PLACES, 2)
    text = f"[{first}]\n{key} = {old}\n\n[{second}]\n{key} = {old}\nsize = 3\n"
    after = f"[{first}]\n{key} = {old}\n\n[{second}]\n{key} = {new}\nsize = 3\n"
    instruction = chance.choice(
        (
            f"In the section [{second}], and only there, set {key} to {new}; then save the file",
            f"Change line 5 to '{key} = {new}' and save the settings",
        )
    )
    file = ("settings.ini", text)
    evaluator = holds("compare_config", f"{HOME}/settings.ini", after)
    steps = _replace_line(5, f"{key} = {new}")
    return _instance("mousepad", file, instruction, evaluator, steps)


def _calls(chance: random.Random) -> list[str]:
    return [f"show('{thing}')" for thing in words.pick(chance, words.THINGS, 5)]


def _comment_lines(chance: random.Random) -> Instance:
    lines, stem = _calls(chance), chance.choice(words.STEMS)
    first, second = sorted(chance.sample(range(2, 6), 2))
    after = [f"# {line}" if number in (first, second) else line
             for number, line in enumerate(lines, 1)]  # fmt: skip
    instruction = chance.choice(
        (
            f"Turn lines {first} and {second} into comments by '# ' in front, and save the file",
            f"Comment out line {first} and line {second} with '# ' at their beginning; save",
        )
    )
    steps = (*_go_to(first), Type(text="# "), *_go_to(second), Type(text="# "))
    texts = ("".join(f"{line}\n" for line in each) for each in (lines, after))
    return _compared("mousepad", (f"{stem}.py", next(texts)), instruction, next(texts), steps)


def _delete_debug_line(chance: random.Random) -> Instance:
    lines, stem = _calls(chance), chance.choice(words.STEMS)
    number, thing = chance.randint(2, 5), chance.choice(words.PLACES)
    debug = f"print('debug', '{thing}')"
    before = [*lines[: number - 1], debug, *lines[number - 1 :]]
    instruction = chance.choice(
        (
            f"Delete line {number}, which prints '{thing}', and save the program",
            f"Remove the whole debug line that prints {thing} (Edit > Delete Line) and save",
        )
    )
    steps = (*_go_to(number), ClickOn("menu", "Edit"), ClickOn("menu item", "Delete Line"))
    texts = ("".join(f"{line}\n" for line in each) for each in (before, lines))
    return _compared("mousepad", (f"{stem}.py", next(texts)), instruction, next(texts), steps)


def _indent_block(chance: random.Random) -> Instance:
    lines, stem = _calls(chance)[: chance.randint(2, 4)], chance.choice(words.STEMS)
    text = "".join(f"{line}\n" for line in lines)
    instruction = chance.choice(
        (
            "Indent all lines of this file by one tab and save it",
            "Select everything, use Edit > Increase Indent once, and save the program",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")), ClickOn("menu", "Edit"), ClickOn("menu item", "Increase Indent"),
    )  # fmt: skip
    after = "".join(f"\t{line}\n" for line in lines)
    return _compared("mousepad", (f"{stem}.py", text), instruction, after, steps)


def _template(
    name: str, app: str, split: Split, make: Callable[[random.Random], Instance]
) -> Template:
    return Template(name=f"code-{name}", app=app, category="code", split=split, make=make)


TEMPLATES = (
    _template("rename-function", "gedit", "train", _rename_function),
    _template("fix-bug", "mousepad", "train", _fix_bug),
    _template("write-function", "mousepad", "held-out", _write_function),
    _template("change-json", "mousepad", "train", _change_json),
    _template("add-json-key", "mousepad", "validation", _add_json_key),
    _template("recolour-sheet", "gedit", "validation", _recolour_sheet),
    _template("change-ini", "mousepad", "train", _change_ini),
    _template("comment-lines", "mousepad", "train", _comment_lines),
    _template("delete-debug-line", "mousepad", "train", _delete_debug_line),
    _template("indent-block", "mousepad", "held-out", _indent_block),
)
