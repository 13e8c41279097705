"""Tasks in xterm that say what is wanted, and leave the commands to whoever does them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.evaluators import lists
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, prints, upload_tree
from envs_node.deploy.tasks.template import Instance, OracleStep, Split, Template
from envs_node.messages.actions import Finish, Key, Type

_WORK = f"{HOME}/work"


def _instance(
    instruction: str,
    commands: Iterable[str],
    evaluator: Json,
    files: Mapping[str, bytes],
    gold: Mapping[str, bytes] | None = None,
) -> Instance:
    """Files lie in the home folder, those with a folder in their name below it."""
    steps: list[OracleStep] = []
    for command in commands:
        steps += [Type(text=command), Key(keys=("enter",))]
    return Instance(
        instruction=instruction,
        config=(*upload_tree(files), launch("xterm")),
        evaluator=evaluator,
        oracle=(*steps, Finish()),
        files={path.rpartition("/")[2]: data for path, data in files.items()},
        gold=gold or {},
    )


def _lines(lines: Iterable[object]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _make_executable(chance: random.Random) -> Instance:
    (name,) = words.pick(chance, words.STEMS, 1)
    file = f"{name}.sh"
    instruction = chance.choice(
        (
            f"Give the script {file} the permissions 755",
            f"Let everybody read and run the script {file}, and only its owner write it",
        )
    )
    evaluator = prints(["stat", "-c", "%a %F", f"{HOME}/{file}"], "755 regular file\n")
    script = f"#!/bin/sh\necho {words.errand(chance)}\n".encode()
    return _instance(instruction, (f"chmod 755 {file}",), evaluator, {file: script})


def _protect_files(chance: random.Random) -> Instance:
    stems, place = words.pick(chance, words.STEMS, 3), chance.choice(words.PLACES)
    mode = chance.choice((600, 640, 440))
    names = [f"{stems[0]}.csv", f"{stems[1]}.csv", f"{stems[2]}.txt"]
    instruction = chance.choice(
        (
            f"Set the permissions of all .csv files in the folder {place} to {mode}",
            f"In {place}, every csv file shall have the mode {mode}; change nothing else",
        )
    )
    after = sorted([f"{names[0]} {mode}", f"{names[1]} {mode}", f"{names[2]} 644"])
    script = f"cd {HOME}/{place} && stat -c '%n %a' * | LC_ALL=C sort"
    evaluator = prints(["sh", "-c", script], "".join(f"{line}\n" for line in after))
    files = {f"{place}/{name}": _lines([words.errand(chance)]) for name in names}
    return _instance(instruction, (f"chmod {mode} {place}/*.csv",), evaluator, files)


def _find_files(chance: random.Random) -> Instance:
    stems, places = words.pick(chance, words.STEMS, 6), words.pick(chance, words.PLACES, 3)
    paths = [
        f"work/{places[0]}/{stems[0]}.log",
        f"work/{places[0]}/{stems[1]}.txt",
        f"work/{places[1]}/{places[2]}/{stems[2]}.log",
        f"work/{places[1]}/{stems[3]}.log",
        f"work/{stems[4]}.txt",
    ]
    out = f"{stems[5]}.txt"
    instruction = chance.choice(
        (
            f"Find all files below the folder work whose name ends in .log, and write their paths,"
            f" sorted and beginning with work/, to {out}",
            f"List every .log file under work (also in its subfolders) in the file {out}: one path"
            f" a line, such as work/a/b.log, in alphabetical order",
        )
    )
    found = sorted(path for path in paths if path.endswith(".log"))
    return _instance(
        instruction,
        (f"find work -name '*.log' | sort > {out}",),
        compare("compare_text_file", f"{HOME}/{out}", out),
        dict.fromkeys(paths, b"Nothing to see here.\n"),
        {out: _lines(found)},
    )


def _count_lines(chance: random.Random) -> Instance:
    stem, out = words.pick(chance, words.STEMS, 2)
    rare, common = words.pick(chance, words.THINGS, 2)
    lines = [rare] * chance.randint(7, 19) + [common] * chance.randint(20, 40)
    chance.shuffle(lines)
    text = _lines(f"{chance.choice(words.VERBS)} {thing}" for thing in lines)
    instruction = chance.choice(
        (
            f"How many lines of {stem}.log contain the word {rare}? Write the number to {out}.txt",
            f"Count the lines in {stem}.log that mention {rare}, and save only that number as"
            f" {out}.txt",
        )
    )
    return _instance(
        instruction,
        (f"grep -c {rare} {stem}.log > {out}.txt",),
        compare("compare_text_file", f"{HOME}/{out}.txt", f"{out}.txt"),
        {f"{stem}.log": text},
        {f"{out}.txt": _lines([lines.count(rare)])},
    )


def _archive_folder(chance: random.Random) -> Instance:
    stems, (place,) = words.pick(chance, words.STEMS, 3), words.pick(chance, words.PLACES, 1)
    names = [f"{place}/{stem}.txt" for stem in stems]
    instruction = chance.choice(
        (
            f"Pack the folder {place} with all that is in it into {place}.tar.gz",
            f"Make a gzipped tar archive {place}.tar.gz of the folder {place}",
        )
    )
    script = f"cd {HOME} && tar -tzf {place}.tar.gz | LC_ALL=C sort"
    listing = "".join(f"{name}\n" for name in sorted([f"{place}/", *names]))
    return _instance(
        instruction,
        (f"tar czf {place}.tar.gz {place}",),
        prints(["sh", "-c", script], listing),
        {name: _lines([words.errand(chance)]) for name in names},
    )


def _link_file(chance: random.Random) -> Instance:
    old, new = words.pick(chance, words.STEMS, 2)
    (place,) = words.pick(chance, words.PLACES, 1)
    instruction = chance.choice(
        (
            f"Make a symbolic link {new}.txt here that points to {place}/{old}.txt",
            f"Create {new}.txt as a soft link to {place}/{old}.txt, by that relative path",
        )
    )
    return _instance(
        instruction,
        (f"ln -s {place}/{old}.txt {new}.txt",),
        prints(["readlink", f"{HOME}/{new}.txt"], f"{place}/{old}.txt\n"),
        {f"{place}/{old}.txt": _lines([words.errand(chance)])},
    )


def _sort_names(chance: random.Random) -> Instance:
    stem, out = words.pick(chance, words.STEMS, 2)
    things = words.pick(chance, words.THINGS, 6)
    lines = [*things, *chance.sample(things, 3)]
    chance.shuffle(lines)
    instruction = chance.choice(
        (
            f"Sort the lines of {stem}.txt, leave out repeated ones, and write them to {out}.txt",
            f"Write each different line of {stem}.txt once to {out}.txt, in alphabetical order",
        )
    )
    return _instance(
        instruction,
        (f"sort -u {stem}.txt > {out}.txt",),
        compare("compare_text_file", f"{HOME}/{out}.txt", f"{out}.txt"),
        {f"{stem}.txt": _lines(lines)},
        {f"{out}.txt": _lines(sorted(things))},
    )


def _sum_column(chance: random.Random) -> Instance:
    stem, out = words.pick(chance, words.STEMS, 2)
    rows = [(thing, chance.randint(10, 99)) for thing in words.pick(chance, words.THINGS, 6)]
    instruction = chance.choice(
        (
            f"Add up the second column of {stem}.txt and write the sum to {out}.txt",
            f"{stem}.txt has a name and a number a line; save the total of the numbers as"
            f" {out}.txt",
        )
    )
    return _instance(
        instruction,
        ("awk '{s += $2} END {print s}' " + f"{stem}.txt > {out}.txt",),
        compare("compare_text_file", f"{HOME}/{out}.txt", f"{out}.txt"),
        {f"{stem}.txt": _lines(f"{thing} {number}" for thing, number in rows)},
        {f"{out}.txt": _lines([sum(number for _, number in rows)])},
    )


def _replace_word(chance: random.Random) -> Instance:
    (stem,) = words.pick(chance, words.STEMS, 1)
    old, new, other = words.pick(chance, words.THINGS, 3)
    things = [old] * 5 + [other] * 5
    chance.shuffle(things)
    before = _lines(f"{chance.choice(words.VERBS)} {thing} {old}" for thing in things)
    instruction = chance.choice(
        (
            f"Replace every '{old}' in {stem}.txt by '{new}', in the file itself",
            f"Change the word {old} to {new} wherever it stands in {stem}.txt",
        )
    )
    return _instance(
        instruction,
        (f"sed -i 's/{old}/{new}/g' {stem}.txt",),
        compare("compare_text_file", f"{HOME}/{stem}.txt", f"{stem}.txt"),
        {f"{stem}.txt": before},
        {f"{stem}.txt": before.replace(old.encode(), new.encode())},
    )


def _sort_into_folders(chance: random.Random) -> Instance:
    stems, (first, second) = words.pick(chance, words.STEMS, 5), words.pick(chance, words.PLACES, 2)
    texts, tables = [f"{each}.txt" for each in stems[:3]], [f"{each}.csv" for each in stems[3:]]
    instruction = chance.choice(
        (
            f"In the folder work, make the folders {first} and {second}; move all .txt files into"
            f" {first} and all .csv files into {second}",
            f"Tidy up work: its txt files go into a new folder {first} there, its csv files into a"
            f" new folder {second}",
        )
    )
    after = (f"{first}/", f"{second}/", *(f"{first}/{name}" for name in texts))
    commands = ("cd work", f"mkdir {first} {second}", f"mv *.txt {first}", f"mv *.csv {second}")
    return _instance(
        instruction,
        commands,
        lists(_WORK, (*after, *(f"{second}/{name}" for name in tables))),
        {f"work/{name}": _lines([name]) for name in (*texts, *tables)},
    )


def _change_suffix(chance: random.Random) -> Instance:
    stems = words.pick(chance, words.STEMS, 5)
    instruction = chance.choice(
        (
            "In the folder work, rename all .jpeg files so that they end in .jpg",
            "Every .jpeg file in work shall end in .jpg instead; the other files stay as they are",
        )
    )
    others = [f"{stem}.png" for stem in stems[3:]]
    commands = ("cd work", 'for f in *.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done')
    return _instance(
        instruction,
        commands,
        lists(_WORK, (*others, *(f"{stem}.jpg" for stem in stems[:3]))),
        {f"work/{n}": _lines([n]) for n in (*(f"{stem}.jpeg" for stem in stems[:3]), *others)},
    )


def _add_alias(chance: random.Random) -> Instance:
    (name,), (place,) = words.pick(chance, words.THINGS, 1), words.pick(chance, words.PLACES, 1)
    line = f"alias {name}='cd ~/{place}'"
    instruction = chance.choice(
        (
            f'Append the line "{line}" to the settings of the shell in aliases.sh',
            f"Make {name} a shell alias for 'cd ~/{place}' for good, by one more line at the end of"
            f" aliases.sh in the style of those above it",
        )
    )
    before = _lines(["alias ll='ls -la'", "alias up='cd ..'"])
    return _instance(
        instruction,
        (f'echo "{line}" >> aliases.sh',),
        compare("compare_text_file", f"{HOME}/aliases.sh", "aliases.sh"),
        {"aliases.sh": before},
        {"aliases.sh": before + _lines([line])},
    )


def _template(name: str, split: Split, make: Callable[[random.Random], Instance]) -> Template:
    return Template(
        name=f"terminal-{name}", app="xterm", category="os", split=split, make=make,
    )  # fmt: skip


TEMPLATES = (
    _template("make-executable", "train", _make_executable),
    _template("protect-files", "train", _protect_files),
    _template("find-files", "train", _find_files),
    _template("count-lines", "train", _count_lines),
    _template("archive-folder", "train", _archive_folder),
    _template("link-file", "validation", _link_file),
    _template("sort-names", "train", _sort_names),
    _template("sum-column", "held-out", _sum_column),
    _template("replace-word", "train", _replace_word),
    _template("sort-into-folders", "validation", _sort_into_folders),
    _template("change-suffix", "held-out", _change_suffix),
    _template("add-alias", "train", _add_alias),
)
