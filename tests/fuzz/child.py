"""One target under libFuzzer, in a process of its own: `python -m tests.fuzz.child TARGET …`.

What comes after the target's name goes to libFuzzer. The first argument of those is the folder of
the corpus, into which the seeds are put.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["envs_node"]):
    from tests.fuzz import seeds
    from tests.fuzz.marks import Check

_MARKS_MAX = 8192
"""Counters for what the checks say they saw: the bytecode does not show what C code decides."""


def main(target: str, corpus: Path, arguments: list[str]) -> None:
    """Fuzz until the arguments say that it is enough, or something is found."""
    with atheris.instrument_imports(include=["envs_node"]):
        module = importlib.import_module(f"tests.fuzz.{target}")
    corpus.mkdir(parents=True, exist_ok=True)
    for data in module.seeds():
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    words = corpus.with_name(f"{corpus.name}.words")
    words.write_text("\n".join(map(_quoted, sorted(seeds.words()))), encoding="ascii")
    with module.opened() as check:
        command = [target, f"-dict={words}", *arguments, str(corpus)]
        atheris.Setup(command, _followed(check))
        atheris.Fuzz()


def _followed(check: Check) -> Callable[[bytes], None]:
    """The check as libFuzzer calls it: each mark counts as a branch of the code."""
    counters = [atheris._reserve_counter() for _ in range(_MARKS_MAX)]

    def follow(data: bytes) -> None:
        for mark in check(data):
            atheris._trace_branch(counters[zlib.crc32(mark.encode()) % _MARKS_MAX])

    return follow


def _quoted(word: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
