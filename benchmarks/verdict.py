"""A verdict from the warm zygote against a fresh interpreter a verdict: same task, same desktop.

Run with `python benchmarks/verdict.py`, as root, with the checker installed.
"""

from __future__ import annotations

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

ROUNDS = 5
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


def main() -> None:
    """Alternate the two, so that the machine's other load meets both."""
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
            warm: list[float] = []
            fresh: list[float] = []
            ratios: list[float] = []
            milliseconds(lambda: checker.verify(task, guest.pid, "DONE").score)
            for _ in range(ROUNDS):
                fresh.append(milliseconds(lambda: fresh_verdict(source, task, guest.pid)))
                times = [
                    milliseconds(lambda: checker.verify(task, guest.pid, "DONE").score)
                    for _ in range(WARM_A_ROUND)
                ]
                warm += times
                ratios.append(fresh[-1] / statistics.median(times))
        finally:
            checker.close()
            guest.kill()
            guest.wait()
    low, median, high = statistics.quantiles(ratios, n=4)
    ratio = f"ratio              {median:8.1f} x   ({low:.1f}-{high:.1f}, n={len(ratios)})"
    lines = [shown("warm zygote", warm), shown("fresh interpreter", fresh), ratio]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
