"""Every public OSWorld task, judged on desktops with a fault: what does the checker make of it?

Run with `python benchmarks/checker_faults.py FOLDER...`, as root, with the checker installed; each
FOLDER holds OSWorld's task files, as `evaluation_examples/examples` does. Exits with 1 if a fault
was scored. Gold files are made here, small and valid, so that nothing is downloaded.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import queue
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.task_files import stored_name
from envs_node.policy.task_reader import listed
from envs_node.policy.tasks import Inspection, inspect_task

HERE = Path(__file__).resolve().parent
GUEST = HERE.parent / "tests" / "actors" / "verifier" / "faulty.py"
FAULTS = ("dead", "500", "frozen", "truncating", "late-dead", "late-500", "late-frozen")
FAULTS += ("late-truncating", "slow", "empty")
SOUND = ("slow", "empty")
"""Faults that a checker must see through: what is judged there is the empty desktop."""
CLASSES = ("success", "failure", "infra", "checker_error", "unsupported", "infeasible")
TOLD = ("verdict", "score", "reason", "wall_ms")
READ_S = 2.0
"""How long an answer may stay away here; 30 in the product, which would only take longer."""
SLOW_S = 0.2
"""Twice in each answer of the slow desktop: before the head and before the body."""


class Row(NamedTuple):
    """One verdict."""

    task: str
    fault: str
    verdict: Verdict


class Desk:
    """A checker of its own, and one desktop of each fault."""

    def __init__(self, source: CheckerSource, faults: tuple[str, ...], read_s: float) -> None:
        self.checker = Checker(source, read_s=read_s)
        self._faults = faults
        self._guests: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Desk:
        for fault in self._faults:
            command = ["unshare", "--net", sys.executable, str(GUEST), fault, str(SLOW_S)]
            guest = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._guests[fault] = guest
            _hear(guest)
        self.checker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.checker.close()
        for guest in self._guests.values():
            guest.kill()
            guest.wait()

    def judge(self, task: Task, fault: str) -> Verdict:
        """Judge one task on one desktop."""
        guest = self._guests[fault]
        assert guest.stdin is not None, "its stdin is a pipe"
        guest.stdin.write(b"again\n")
        guest.stdin.flush()
        _hear(guest)
        return self.checker.verify(task, guest.pid, "DONE")


def _hear(guest: subprocess.Popen[bytes]) -> None:
    assert guest.stdout is not None, "its stdout is a pipe"
    assert guest.stdout.readline() == b"ready\n", "the desktop did not come up"


def find_tasks(folders: list[Path], source: CheckerSource) -> Iterator[Inspection]:
    """All tasks below, furnished with gold files."""
    with tempfile.TemporaryDirectory() as place:
        script = str(HERE / "gold_files.py")
        subprocess.run([str(source.python), "-W", "ignore", script, place], check=True)
        gold = {path.suffix: path.read_bytes() for path in Path(place).iterdir()}
    for file in sorted(path for folder in folders for path in folder.rglob("*.json")):
        data = file.read_bytes()
        task = json.loads(data)
        if isinstance(task, dict) and "evaluator" in task:
            files = dict(_files(task["evaluator"], gold))
            yield inspect_task(data, files, source.vocabulary, file=file.stem)


def _files(evaluator: dict[str, Any], gold: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for field, part in (("result", "files"), ("expected", "gold")):
        for config in listed(evaluator.get(field)):
            if config and config.get("type") == "cloud_file":
                for path, dest in zip(listed(config["path"]), listed(config["dest"]), strict=True):
                    kind = Path(dest).suffix.lower() or Path(path).suffix.lower()
                    content = gold.get(kind, gold[".txt"])
                    yield stored_name(path, "gold" if part == "gold" else "files"), content
    for step in evaluator.get("postconfig") or []:
        if step["type"] == "download":
            for file in step["parameters"]["files"]:
                content = gold.get(Path(file["path"]).suffix.lower(), gold[".txt"])
                yield stored_name(file["url"], "files"), content


def sweep(
    tasks: list[Inspection],
    faults: tuple[str, ...],
    source: CheckerSource,
    desks: int,
    read_s: float = READ_S,
) -> Iterator[Row]:
    """Judge each task on each desktop, several at a time: most of it is waiting."""
    for item in tasks:
        if item.task is None:
            reason = str(item.lacks[0])
            for fault in faults:
                refused = Verdict(verdict="unsupported", reason=reason)
                yield Row(item.file, fault, refused)
    free: queue.Queue[Desk] = queue.Queue()
    made = [Desk(source, faults, read_s) for _ in range(desks)]
    with concurrent.futures.ThreadPoolExecutor(desks) as pool:
        try:
            for desk in made:
                free.put(desk.__enter__())

            def judge(task: Task, fault: str) -> Row:
                desk = free.get()
                try:
                    return Row(task.id, fault, desk.judge(task, fault))
                finally:
                    free.put(desk)

            orders = [
                pool.submit(judge, item.task, fault)
                for item in tasks
                if item.task is not None
                for fault in faults
            ]
            for order in concurrent.futures.as_completed(orders):
                yield order.result()
        finally:
            for desk in made:
                desk.__exit__()


def scored(rows: list[Row]) -> list[str]:
    """Faults that were taken for a result, and slow desktops judged other than empty ones."""
    found = [
        f"{row.task}: {row.fault} desktop scored {row.verdict.verdict}: {row.verdict.reason}"
        for row in rows
        if row.fault not in SOUND and row.verdict.verdict in ("success", "failure", "checker_error")
    ]
    classes = {(row.task, row.fault): row.verdict.verdict for row in rows}
    for row in rows:
        if row.fault == "slow" and classes.get((row.task, "empty"), "") != row.verdict.verdict:
            empty = classes.get((row.task, "empty"), "")
            said = f"{row.verdict.verdict} ({row.verdict.reason}), and {empty} when quick"
            found.append(f"{row.task}: slow desktop scored {said}")
    return found


def shown(rows: list[Row], faults: tuple[str, ...]) -> str:
    """The table: a line a fault, a column a class."""
    counts = Counter((row.fault, row.verdict.verdict) for row in rows)
    lines = ["| desktop | " + " | ".join(CLASSES) + " |", "|---" * (len(CLASSES) + 1) + "|"]
    for fault in faults:
        numbers = " | ".join(str(counts[fault, name]) for name in CLASSES)
        lines.append(f"| {fault} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    """Sweep, print the table, and say what was scored wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--faults", default=",".join(FAULTS), help="which, comma between them")
    parser.add_argument("--desks", type=int, default=3, help="checkers at a time")
    parser.add_argument("--read-s", type=float, default=READ_S, help="wait of an answer")
    parser.add_argument("--json", action="store_true", help="print each verdict as a line of JSON")
    given = parser.parse_args()
    faults = tuple(given.faults.split(","))
    source = read_checker(checker_folder())
    began = time.monotonic()
    tasks = list(find_tasks(given.folders, source))
    rows = []
    for row in sweep(tasks, faults, source, given.desks, given.read_s):
        rows.append(row)
        if given.json:
            told = {name: getattr(row.verdict, name) for name in TOLD}
            sys.stdout.write(json.dumps({"task": row.task, "fault": row.fault, **told}) + "\n")
            sys.stdout.flush()
    wrong = scored(rows)
    if not given.json:
        sys.stdout.write(shown(rows, faults) + "\n")
        vacuous = sorted(
            r.task for r in rows if (r.fault, r.verdict.verdict) == ("empty", "success")
        )
        told = [f"passes on the empty desktop: {name}" for name in vacuous]
        told.append(f"{len(rows)} verdicts, {len(wrong)} wrong, {time.monotonic() - began:.0f} s")
        sys.stdout.write("\n".join([*told, *wrong]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
