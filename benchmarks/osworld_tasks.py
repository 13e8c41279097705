"""Unmodified OSWorld tasks on real desktops: what the checker says of each, untouched and solved.

    PYTHONPATH=. python benchmarks/osworld_tasks.py [--json] [NAME ...]

A name is a domain, or the first letters of a case's: `os`, `vlc-215dfd39`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import structlog
from timing import machine

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.tasks.cache import FileCache
from envs_node.messages.base import EnvsError
from envs_node.messages.verify import Verdict
from envs_node.policy.tasks import Vocabulary
from tests.osworld.cases import CASES
from tests.osworld.playing import Case, play, read_case


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    domain: str
    id: str
    how: str
    untouched: str
    solved: str
    seconds: float
    is_right: bool


def main() -> None:
    """Play them and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = tuple(options.names)
    chosen = [case for case in CASES if not names or case.name.startswith(names)]
    source = read_checker(checker_folder())
    checker = Checker(source)
    rows = []
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder, Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            if not options.json:
                sys.stdout.write(f"{machine()}; {source.version}\n\n")
                sys.stdout.write("| domain | task | solution | untouched | solved | s |\n")
                sys.stdout.write("|---|---|---|---|---|---|\n")
            for case in chosen:
                rows.append(
                    _row(case, source.vocabulary, sandbox, checker, FileCache(Path(folder)))
                )
                if not options.json:
                    _show(rows[-1])
        finally:
            sandbox.close()
            checker.close()
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
    else:
        right = Counter(row.domain for row in rows if row.is_right)
        counted = ", ".join(f"{domain} {count}" for domain, count in sorted(right.items()))
        sys.stdout.write(f"\n{sum(right.values())} of {len(rows)} as they should: {counted}\n")
    sys.exit(0 if all(row.is_right for row in rows) else 1)


def _row(
    case: Case, vocabulary: Vocabulary, sandbox: Sandbox, checker: Checker, cache: FileCache
) -> Row:
    fields = {"domain": case.domain, "id": case.id, "how": case.how}
    try:
        outcome = play(case, read_case(case, vocabulary, cache), sandbox, checker)
    except (AssertionError, EnvsError) as error:
        return Row(untouched="", solved=str(error)[:300], seconds=0.0, is_right=False, **fields)
    return Row(
        untouched=_say(outcome.untouched),
        solved=_say(outcome.solved),
        seconds=round(outcome.seconds, 1),
        is_right=outcome.untouched.verdict == "failure" and outcome.solved.verdict == "success",
        **fields,
    )


def _say(verdict: Verdict) -> str:
    score = "" if verdict.score is None else f" {verdict.score:g}"
    return f"{verdict.verdict}{score}" + (f" ({verdict.reason[:200]})" if verdict.reason else "")


def _show(row: Row) -> None:
    sys.stdout.write(
        f"| {row.domain} | {row.id[:8]} | {row.how} | {row.untouched} | {row.solved} "
        f"| {row.seconds:g} |\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
