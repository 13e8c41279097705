"""Typing: is the text exact, read back from the application, again and again?

Each round types every kind of text (ASCII, right-to-left, combining, emoji, 300 distinct characters
that no key has), then 120 distinct characters while the application is stopped for 300 ms again and
again, then 5,000 characters while a process does nothing but turn. Several applications are typed
into at once, so that each works on a busy machine.

    python benchmarks/exact_typing.py [--rounds 20] [--at-once 3] [--applications mousepad xterm …]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from desktops import quiet_logs
from timing import machine

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from tests.actors.desktop.test_typing import stopping
from tests.actors.desktop.typing_places import (
    PLACES,
    distinct,
    long_text,
    open_place,
    type_into,
    whole_set,
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--applications", nargs="+", default=[n for n in PLACES if n != "cells"])
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        quiet_logs()
        (name,) = options.applications
        with Launcher() as launcher:
            sandbox = Sandbox(launcher)
            try:
                sys.stdout.write(_row(sandbox, name, options.rounds))
            finally:
                sandbox.close()
        return
    start = time.monotonic()
    sys.stdout.write(f"{machine()}\n")

    def measure(name: str) -> None:
        rounds = ["--rounds", str(options.rounds)]
        command = [sys.executable, __file__, "--here", *rounds, "--applications", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        sys.stdout.write(done.stdout or f"| {name} | {done.stderr[-300:]!r} |\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.at_once) as several:
        list(several.map(measure, options.applications))
    sys.stdout.write(f"{time.monotonic() - start:.0f} s in all\n")


def _row(sandbox: Sandbox, name: str, rounds: int) -> str:
    place = open_place(sandbox, name)
    exact = {"whole": 0, "stopped": 0, "long": 0}
    took_s = []
    for _ in range(rounds):
        exact["whole"] += type_into(sandbox, place, whole_set()) == place.shows(whole_set())
        with stopping(sandbox, place.program):
            exact["stopped"] += type_into(sandbox, place, distinct(120)) == distinct(120)
        with _busy():
            start = time.monotonic()
            exact["long"] += type_into(sandbox, place, long_text()) == place.shows(long_text())
            took_s.append(time.monotonic() - start)
    counts = " | ".join(f"{number}/{rounds}" for number in exact.values())
    return f"| {name} | {counts} | {statistics.median(took_s):.1f} ({max(took_s):.1f}) |\n"


@contextmanager
def _busy() -> Iterator[None]:
    loop = multiprocessing.Process(target=_turn, daemon=True)
    loop.start()
    try:
        yield
    finally:
        loop.terminate()
        loop.join()


def _turn() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
