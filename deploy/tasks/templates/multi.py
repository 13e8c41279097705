"""Tasks over two applications: what one shows, the other needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from envs_node.deploy.tasks import documents, words
from envs_node.deploy.tasks.documents import Cell
from envs_node.deploy.tasks.evaluators import lists
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, upload_tree
from envs_node.deploy.tasks.template import (
    ClickOn,
    Instance,
    OracleStep,
    Split,
    SwitchTo,
    Template,
)
from envs_node.messages.actions import Finish, Key, Type

_WORK = f"{HOME}/work"
_SAVE = Key(keys=("ctrl", "s"))
_ENTER = Key(keys=("enter",))
_END = Key(keys=("ctrl", "end"))
_DATA: list[Json] = [
    {"type": "sheet_name"},
    {"type": "sheet_data", "sheet_idx0": "RI0", "sheet_idx1": "EI0"},
]


def _instance(
    instruction: str,
    launches: tuple[Json, Json],
    evaluator: Json,
    steps: Iterable[OracleStep],
    files: Mapping[str, bytes],
    gold: Mapping[str, bytes] | None = None,
) -> Instance:
    """Two applications; the second is on top at first. Files named `work/…` lie in that folder."""
    return Instance(
        instruction=instruction,
        config=(*upload_tree(files), *launches),
        evaluator=evaluator,
        oracle=(*steps, Finish()),
        files={path.rpartition("/")[2]: data for path, data in files.items()},
        gold=gold or {},
    )


def _mousepad(name: str) -> Json:
    return launch("mousepad", f"{HOME}/{name}")


def _office(kind: str, name: str) -> Json:
    return launch("soffice", "--norestore", "--nologo", f"--{kind}", f"{HOME}/{name}")


def _lines(lines: Iterable[object]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _number_to_sheet(chance: random.Random) -> Instance:
    things = words.pick(chance, words.THINGS, 4)
    counts = {thing: chance.randint(100, 999) for thing in things}
    missing = chance.choice(things[1:])
    rows: list[list[Cell]] = [["item", "count"]]
    rows += [[thing, None if thing == missing else counts[thing]] for thing in things]
    full: list[list[Cell]] = [["item", "count"]]
    full += [[thing, counts[thing]] for thing in things]
    cell = f"B{things.index(missing) + 2}"
    instruction = chance.choice(
        (
            f"The spreadsheet lacks the count of {missing}: take it from the open notes, enter it"
            f" and save the spreadsheet",
            f"Look up the number of {missing} in notes.txt, put it into cell {cell} of the"
            f" spreadsheet, and save that",
        )
    )
    steps = (
        SwitchTo("Calc"), ClickOn("table cell", cell), Type(text=str(counts[missing])), _ENTER,
        _SAVE,
    )  # fmt: skip
    lines = [f"{thing}: {counts[thing]}" for thing in chance.sample(things, len(things))]
    return _instance(
        instruction,
        (_office("calc", "stock.xlsx"), _mousepad("notes.txt")),
        compare("compare_table", f"{HOME}/stock.xlsx", "stock.xlsx", rules=_DATA),
        steps,
        {"stock.xlsx": documents.workbook(rows), "notes.txt": _lines(lines)},
        {"stock.xlsx": documents.workbook(full)},
    )


def _names_to_note(chance: random.Random) -> Instance:
    stems = sorted(words.pick(chance, words.STEMS, 3))
    names = [f"{stem}.{chance.choice(('txt', 'csv', 'log'))}" for stem in stems]
    before = _lines([words.errand(chance)])
    instruction = chance.choice(
        (
            "Append the names of the files that the file manager shows to the open text, one a"
            " line in alphabetical order, and save it",
            "Write at the end of notes.txt, each on a line of its own, which files lie in the"
            " folder work (sorted by name), and save the notes",
        )
    )
    written = _lines(names).decode()
    return _instance(
        instruction,
        (_mousepad("notes.txt"), launch("thunar", _WORK)),
        compare("compare_text_file", f"{HOME}/notes.txt", "notes.txt"),
        (SwitchTo("Mousepad"), _END, Type(text=written), _SAVE),
        {"notes.txt": before} | {f"work/{name}": b"Nothing to see here.\n" for name in names},
        {"notes.txt": before + _lines(names)},
    )


def _rename_by_note(chance: random.Random) -> Instance:
    first, second, new = words.pick(chance, words.STEMS, 3)
    note = _lines([words.errand(chance), f"Please rename {first}.txt to {new}.txt."])
    instruction = chance.choice(
        (
            "The open note asks for a file to be renamed: do that in the file manager",
            "Do with the files in the folder work what notes.txt asks for",
        )
    )
    steps = (
        SwitchTo("Thunar"), ClickOn("table cell", f"{first}.txt"), Key(keys=("f2",)),
        Type(text=new), _ENTER,
    )  # fmt: skip
    names = (f"{first}.txt", f"{second}.txt")
    return _instance(
        instruction,
        (launch("thunar", _WORK), _mousepad("notes.txt")),
        lists(_WORK, (f"{new}.txt", f"{second}.txt")),
        steps,
        {"notes.txt": note} | {f"work/{name}": b"Nothing to see here.\n" for name in names},
    )


def _folder_by_note(chance: random.Random) -> Instance:
    stem, place = chance.choice(words.STEMS), chance.choice(words.PLACES)
    note = _lines([words.errand(chance), f"All of it goes to the {place}."])
    instruction = chance.choice(
        (
            f"Make a folder in work that is named after the place in the open note, and move"
            f" {stem}.txt into it",
            f"Read in notes.txt where all goes: create a folder of that name beside {stem}.txt and"
            f" put {stem}.txt there",
        )
    )
    steps = (
        SwitchTo("Thunar"), Key(keys=("ctrl", "shift", "n")), Type(text=place), _ENTER,
        ClickOn("table cell", f"{stem}.txt"), Key(keys=("ctrl", "x")),
        ClickOn("table cell", place, 2), Key(keys=("ctrl", "v")),
    )  # fmt: skip
    return _instance(
        instruction,
        (launch("thunar", _WORK), _mousepad("notes.txt")),
        lists(_WORK, (f"{place}/", f"{place}/{stem}.txt")),
        steps,
        {"notes.txt": note, f"work/{stem}.txt": b"Nothing to see here.\n"},
    )


def _output_to_note(chance: random.Random) -> Instance:
    stem, thing = chance.choice(words.STEMS), chance.choice(words.THINGS)
    things = [thing] * chance.randint(11, 29) + [chance.choice(words.PLACES)] * 30
    chance.shuffle(things)
    before = f"{thing}: "
    instruction = chance.choice(
        (
            f"Count with the terminal in how many lines of {stem}.log the word {thing} stands, put"
            f" the number at the end of the open text, and save it",
            f"Complete notes.txt by how often {thing} stands in {stem}.log (grep -c tells it), and"
            f" save the notes",
        )
    )
    count = str(things.count(thing))
    steps = (
        Type(text=f"grep -c {thing} {stem}.log"), _ENTER,
        SwitchTo("Mousepad"), _END, Type(text=count), _SAVE,
    )  # fmt: skip
    return _instance(
        instruction,
        (_mousepad("notes.txt"), launch("xterm")),
        compare("compare_text_file", f"{HOME}/notes.txt", "notes.txt"),
        steps,
        {"notes.txt": before.encode(), f"{stem}.log": _lines(things)},
        {"notes.txt": f"{before}{count}".encode()},
    )


def _output_to_letter(chance: random.Random) -> Instance:
    stem, number = chance.choice(words.STEMS), chance.randint(31, 99)
    paragraphs = [words.errand(chance), f"Lines in {stem}.log: "]
    instruction = chance.choice(
        (
            f"Count the lines of {stem}.log in the terminal, write the number at the very end of"
            f" the open letter, and save that",
            f"Complete the letter by the number of lines that {stem}.log has (wc -l tells it), and"
            f" save it",
        )
    )
    steps = (
        Type(text=f"wc -l {stem}.log"), _ENTER,
        SwitchTo("Writer"), _END, Type(text=str(number)), _SAVE,
    )  # fmt: skip
    after = [paragraphs[0], f"{paragraphs[1]}{number}"]
    return _instance(
        instruction,
        (_office("writer", "letter.docx"), launch("xterm")),
        compare("compare_docx_files", f"{HOME}/letter.docx", "letter.docx"),
        steps,
        {
            "letter.docx": documents.letter(paragraphs),
            f"{stem}.log": _lines(chance.choice(words.THINGS) for _ in range(number)),
        },
        {"letter.docx": documents.letter(after)},
    )


def _sheet_to_csv(chance: random.Random) -> Instance:
    rows: list[list[Cell]] = [["item", "count"]]
    rows += [[thing, chance.randint(10, 99)] for thing in words.pick(chance, words.THINGS, 3)]
    text = "".join(f"{name},{count}\n" for name, count in rows)
    instruction = chance.choice(
        (
            "Write the table of the spreadsheet into the open text as comma-separated values, one"
            " row a line, and save the text",
            "Type the spreadsheet's rows into stock.csv in the text editor, with commas between"
            " the columns and the heading first, and save it",
        )
    )
    return _instance(
        instruction,
        (_mousepad("stock.csv"), _office("calc", "stock.xlsx")),
        compare("compare_csv", f"{HOME}/stock.csv", "stock.csv"),
        (SwitchTo("Mousepad"), Type(text=text), _SAVE),
        {"stock.csv": b"", "stock.xlsx": documents.workbook(rows)},
        {"stock.csv": text.encode()},
    )


def _copy_between_editors(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.STEMS, 2)
    taken, kept = (_lines(words.errand(chance) for _ in range(3)) for _ in range(2))
    instruction = chance.choice(
        (
            f"Copy the whole text of {old}.txt from gedit to the end of {new}.txt in Mousepad, and"
            f" save {new}.txt",
            f"Put all that {old}.txt says at the end of {new}.txt, too, and save {new}.txt",
        )
    )
    steps = (
        Key(keys=("ctrl", "a")), Key(keys=("ctrl", "c")),
        SwitchTo("Mousepad"), _END, Key(keys=("ctrl", "v")), _SAVE,
    )  # fmt: skip
    return _instance(
        instruction,
        (_mousepad(f"{new}.txt"), launch("gedit", f"{HOME}/{old}.txt")),
        compare("compare_text_file", f"{HOME}/{new}.txt", f"{new}.txt", ignore_blanks=True),
        steps,
        {f"{new}.txt": kept, f"{old}.txt": taken},
        {f"{new}.txt": kept + taken},
    )


def _delete_listed(chance: random.Random) -> Instance:
    names = [f"{stem}.txt" for stem in words.pick(chance, words.STEMS, 5)]
    listed, kept = names[:2], names[2:]
    instruction = chance.choice(
        (
            "Delete the files of the folder work that the open list names, by commands in the"
            " terminal, and keep all others",
            "Remove from work, with the terminal, what list.txt says is no longer needed",
        )
    )
    steps: list[OracleStep] = [SwitchTo("xterm")]
    for command in ("cd work", f"rm {listed[0]}", f"rm {listed[1]}"):
        steps += [Type(text=command), _ENTER]
    return _instance(
        instruction,
        (launch("xterm"), _mousepad("list.txt")),
        lists(_WORK, kept),
        steps,
        {"list.txt": _lines(["No longer needed:", *listed])}
        | {f"work/{name}": b"Nothing to see here.\n" for name in names},
    )


def _mend_and_run(chance: random.Random) -> Instance:
    stem, out = words.pick(chance, words.STEMS, 2)
    wrong, right = words.pick(chance, words.THINGS, 2)
    program = f"name = '{wrong}'\nfor number in range(3):\n    print(name, number)\n"
    instruction = chance.choice(
        (
            f"Let the open program say '{right}' instead of '{wrong}', save it, run it in the"
            f" terminal and keep what it prints in {out}.txt",
            f"Change name to '{right}' in {stem}.py and save it; then write the output of"
            f" python3 {stem}.py to {out}.txt in the terminal",
        )
    )
    steps = (
        Key(keys=("ctrl", "home")), Key(keys=("shift", "end")), Type(text=f"name = '{right}'"),
        _SAVE, SwitchTo("xterm"), Type(text=f"python3 {stem}.py > {out}.txt"), _ENTER,
    )  # fmt: skip
    return _instance(
        instruction,
        (launch("xterm"), _mousepad(f"{stem}.py")),
        compare("compare_text_file", f"{HOME}/{out}.txt", f"{out}.txt"),
        steps,
        {f"{stem}.py": program.encode()},
        {f"{out}.txt": _lines(f"{right} {number}" for number in range(3))},
    )


def _template(
    name: str, apps: tuple[str, str], split: Split, make: Callable[[random.Random], Instance]
) -> Template:
    app, *also = apps
    return Template(
        name=f"multi-{name}", app=app, also=tuple(also), category="multi", split=split, make=make
    )


TEMPLATES = (
    _template("number-to-sheet", ("libreoffice_calc", "mousepad"), "train", _number_to_sheet),
    _template("names-to-note", ("mousepad", "thunar"), "train", _names_to_note),
    _template("rename-by-note", ("thunar", "mousepad"), "train", _rename_by_note),
    _template("folder-by-note", ("thunar", "mousepad"), "held-out", _folder_by_note),
    _template("output-to-note", ("mousepad", "xterm"), "validation", _output_to_note),
    _template("output-to-letter", ("libreoffice_writer", "xterm"), "held-out", _output_to_letter),
    _template("sheet-to-csv", ("mousepad", "libreoffice_calc"), "train", _sheet_to_csv),
    _template("copy-between-editors", ("mousepad", "gedit"), "train", _copy_between_editors),
    _template("delete-listed", ("xterm", "mousepad"), "train", _delete_listed),
    _template("mend-and-run", ("xterm", "mousepad"), "validation", _mend_and_run),
)
