"""Warm verdicts against a fresh interpreter each: same task, same desktop; and many in a row.

Run with `python benchmarks/verdict.py`, as root, with the checker installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import envs_node.actors.verifier as verifier
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import read_task

ROUNDS = 20
WARM_A_ROUND = 10
HERE = Path(__file__).resolve().parent
GUEST = HERE.parent / "tests" / "actors" / "verifier" / "guest.py"
EVALUATOR = {
    "func": "compare_text_file",
    "result": {"type": "vm_file", "path": "/home/user/a.txt", "dest": "a.txt"},
    "expected": {"type": "cloud_file", "path": "bundle://gold/a.txt", "dest": "gold.txt"},
}


def fresh_verdict(source: CheckerSource, task: Task, guest_pid: int) -> float | None:
    """Judge in an interpreter of its own, which imports all of OSWorld's evaluators."""
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder) / "task.json", Path(folder) / "cache"
        path.write_bytes(task.json)
        cache.mkdir()
        (cache / "gold.txt").write_bytes(task.files[0].data)
        order = {"task": str(path), "cache": str(cache), "last_action": "DONE"}
        command = ["nsenter", f"--net=/proc/{guest_pid}/ns/net", str(source.python), "-I"]
        command += ["-W", "ignore", str(HERE / "fresh_verdict.py")]
        command += [str(Path(verifier.__path__[0])), json.dumps(order), ",".join(source.absent)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
    score: float | None = json.loads(done.stdout)
    return score


def milliseconds(judge: Callable[[], float | None]) -> float:
    """Time one verdict, which must be a success."""
    began = time.perf_counter()
    assert judge() == 1.0, "the benchmark's task was not judged a success"
    return (time.perf_counter() - began) * 1000


def shown(name: str, times_ms: list[float]) -> str:
    """One line: median and the range of the middle half."""
    low, median, high = statistics.quantiles(times_ms, n=4)
    return f"{name:18} {median:8.1f} ms  ({low:.1f}-{high:.1f}, n={len(times_ms)})"


def memory_kb(pid: int) -> int:
    """What a process has that it shares with nobody, in KiB."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    rows = [line.split() for line in rollup.splitlines() if line.startswith("Private_")]
    return sum(int(row[1]) for row in rows)


def left_behind(checker: Checker) -> tuple[int, int]:
    """Processes below the zygote, and files beside its log in its folder."""
    pid = checker.zygote_pid
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return len(below), len(list(checker.folder.iterdir())) - 1


def compare(checker: Checker, source: CheckerSource, task: Task, guest_pid: int) -> list[str]:
    """Alternate the two, so that the machine's other load meets both."""
    warm: list[float] = []
    fresh: list[float] = []
    ratios: list[float] = []
    for _ in range(ROUNDS):
        fresh.append(milliseconds(lambda: fresh_verdict(source, task, guest_pid)))
        times = [
            milliseconds(lambda: checker.verify(task, guest_pid, "DONE").score)
            for _ in range(WARM_A_ROUND)
        ]
        warm += times
        ratios.append(fresh[-1] / statistics.median(times))
    low, median, high = statistics.quantiles(ratios, n=4)
    ratio = f"ratio              {median:8.1f} x   ({low:.1f}-{high:.1f}, n={len(ratios)})"
    return [shown("warm zygote", warm), shown("fresh interpreter", fresh), ratio]


def endure(checker: Checker, task: Task, guest_pid: int, count: int) -> list[str]:
    """Judge many times in a row; what stays of it in memory, processes and files."""
    starts = checker.starts
    rows = []
    for number in range(count + 1):
        if number % max(count // 4, 1) == 0:
            rows.append(
                f"after {number:5} verdicts {memory_kb(checker.zygote_pid) / 1024:8.2f} MiB"
            )
        if number < count:
            milliseconds(lambda: checker.verify(task, guest_pid, "DONE").score)
    processes, files = left_behind(checker)
    rows.append(f"left: {processes} processes, {files} files; restarts {checker.starts - starts}")
    return rows


def main() -> None:
    """Measure both ways of judging, then many verdicts in a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in-a-row", type=int, default=1000, help="verdicts of the second part")
    given = parser.parse_args()
    source = read_checker(checker_folder())
    data = json.dumps({"id": "bench", "instruction": "Write.", "evaluator": EVALUATOR}).encode()
    task = read_task(data, {"gold/a.txt": b"right\n"}, source.vocabulary, file="bench.json")
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "home" / "user" / "a.txt"
        result.parent.mkdir(parents=True)
        result.write_bytes(b"right\n")
        command = ["unshare", "--net", sys.executable, str(GUEST), folder, "sound"]
        guest = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert guest.stdout is not None, "stdout was asked for as a pipe"
        checker = Checker(source)
        try:
            guest.stdout.readline()
            checker.start()
            milliseconds(lambda: checker.verify(task, guest.pid, "DONE").score)
            lines = compare(checker, source, task, guest.pid)
            lines += endure(checker, task, guest.pid, given.in_a_row)
        finally:
            checker.close()
            guest.kill()
            guest.wait()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
