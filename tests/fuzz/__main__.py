"""`python -m tests.fuzz [TARGET …] --seconds 150`: coverage-guided fuzzing, one after another.

Each runs under libFuzzer (atheris: `pip install -e '.[fuzz]'`) in a process of its own, with a
deadline for an input and a limit of memory. 1 when something was found: the input is kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.fuzz.memory_folder import memory_folder

ROOT = Path(__file__).parents[2]
TARGETS = ("codec", "journal", "enrolment", "server")
_INPUT_S = 5
_MEMORY_MB = 1024
_INPUT_BYTES_MAX = 8192
_START_S = 60
_STATUS = re.compile(r"#(\d+)\s+(\w+)\s+cov: (\d+) ft: \d+ corp: (\d+)/(\S+) .*rss: (\d+)Mb")


class Outcome(msgspec.Struct, kw_only=True):
    """What the fuzzing of a target came to, as libFuzzer counted it."""

    target: str
    seconds: int
    runs: int = 0
    seeds: int = 0
    """Inputs that the corpus began with; those that reach nothing new are not kept in it."""
    corpus_before: int = 0
    corpus: int = 0
    """Inputs of which each reaches what no other does."""
    coverage_before: int = 0
    coverage: int = 0
    """Branches of the bytecode that were taken, and marks of what the checks saw."""
    memory_mb: int = 0
    finding: str = ""
    """The last line of the error, and the file with the input."""

    def line(self) -> str:
        """A row of a table."""
        cells = (
            self.target,
            f"{self.seconds} s",
            f"{self.runs:,}",
            f"{self.coverage_before:,} → {self.coverage:,}",
            f"{self.corpus_before:,} → {self.corpus:,}",
            f"{self.memory_mb} MB",
            self.finding or "none",
        )
        return f"| {' | '.join(cells)} |"


def main() -> int:
    """Fuzz the chosen targets in turn, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=150, help="for each target")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept; a temporary folder")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    chosen = parser.parse_args()
    if unknown := set(chosen.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}: choose from {', '.join(TARGETS)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed: make fuzz, or pip install -e '.[fuzz]'")
    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="envs-node-corpus-"))
    outcomes = [
        fuzz(target, corpus, seconds=chosen.seconds) for target in chosen.targets or TARGETS
    ]
    if chosen.json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(outcomes), indent=2) + "\n")
    else:
        sys.stdout.write("| target | for | runs | coverage | corpus | memory | found |\n")
        sys.stdout.write("|---|---|---|---|---|---|---|\n")
        sys.stdout.writelines(f"{outcome.line()}\n" for outcome in outcomes)
    return 1 if any(outcome.finding for outcome in outcomes) else 0


def fuzz(target: str, corpus: Path, *, seconds: int) -> Outcome:
    """Fuzz one target for so long, or until something is found."""
    outcome = Outcome(target=target, seconds=seconds)
    corpus.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "tests.fuzz.child", target, str(corpus / target)),
        f"-max_total_time={seconds}",
        f"-max_len={_INPUT_BYTES_MAX}",
        f"-timeout={_INPUT_S}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-artifact_prefix={corpus}/{target}-",
    ]
    with memory_folder() as scratch:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds + _START_S,
        )
    read_log(outcome, done.stdout.splitlines())
    if done.returncode or not outcome.runs:
        sys.stderr.write(done.stdout[-4000:])
        kept = re.findall(r"Test unit written to (\S+)", done.stdout)
        reason = "".join(_reasons(done.stdout.splitlines())) or f"it ended by {done.returncode}"
        outcome.finding = f"{reason}: {kept[-1] if kept else 'no input'}"
    return outcome


def read_log(outcome: Outcome, lines: list[str]) -> None:
    """Take over what libFuzzer says of its progress."""
    for line in lines:
        if found := re.search(r"seed corpus: files: (\d+)", line):
            outcome.seeds = int(found[1])
        if status := _STATUS.match(line):
            outcome.runs = int(status[1])
            outcome.coverage, outcome.corpus = int(status[3]), int(status[4])
            outcome.memory_mb = max(outcome.memory_mb, int(status[6]))
            if status[2] == "INITED":
                outcome.coverage_before, outcome.corpus_before = outcome.coverage, outcome.corpus


def _reasons(lines: list[str]) -> Iterator[str]:
    """The error of a check, or what libFuzzer itself found."""
    for number, line in enumerate(lines):
        if "Uncaught Python exception" in line:
            yield lines[number + 1][:200]
            return
        if line.startswith("SUMMARY: libFuzzer"):
            yield line[9:200]
            return


if __name__ == "__main__":
    sys.exit(main())
