"""`envs-node tasks admit`: the gate before a search."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

import msgspec
import tyro

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.checker_origin import CheckerSettings
from envs_node.deploy.cli.console import Interrupted, show, tell
from envs_node.deploy.cli.task_source import admission_folder, read_all_tasks
from envs_node.deploy.cli.verb import Verb, require_checker, require_host
from envs_node.deploy.config import ConfigError, DesktopSettings
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.sweep import owning
from envs_node.deploy.tasks.admission import Admission, Gate
from envs_node.deploy.tasks.bundle import bundled_solution
from envs_node.deploy.tasks.quarantine import (
    REPORT,
    append_record,
    read_records,
    write_lists,
)
from envs_node.messages.tasks import Task

_COUNT_MAX = 64


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says of all tasks."""

    admitted: int
    quarantined: int
    undecided: int
    """Tasks with which desktops or the checker broke each time: neither of the two."""
    unread: tuple[str, ...]
    """Files that are no task, and why."""
    folder: Path
    tasks: tuple[Admission, ...]


class Admit(Verb, frozen=True, kw_only=True):
    """Try tasks before they are searched: exit 1 when one is quarantined.

    On real desktops doing nothing must fail, a dead and an empty desktop must never succeed, the
    solution, where the task has one, must succeed, and each must score the same every time. What
    fails is quarantined: searches and evals leave it out.
    """

    tasks: tyro.conf.Positional[str]
    """A task file, a folder of them, or the bundled sets `train`, `validation` or `held-out`."""
    instances: int = 1
    """Instances of each bundled template."""
    task_seed: int = 0
    """Which instances of the bundled templates."""
    repeats: int = 3
    """How often doing nothing, and the solution, are judged."""
    desktops: int = 2
    """How many at once."""
    report: Path | None = None
    """Where report and quarantine list go: beside the tasks, or `admission-<set>` for bundled ones.
    Searches look there; where another folder is given, they do not."""
    checker: CheckerSettings = CheckerSettings()
    anew: bool = False
    """Try what was tried before, too."""
    json: bool = False

    def run(self) -> int:
        """Try them all."""
        for name, value in (("--repeats", self.repeats), ("--desktops", self.desktops)):
            if not 1 <= value <= _COUNT_MAX:
                raise ConfigError(f"{name} is {value}; it must be between 1 and {_COUNT_MAX}")
        source = require_checker(self.checker.name)
        tasks, lacks = read_all_tasks(self.tasks, self.instances, self.task_seed, source)
        folder = self.report or admission_folder(self.tasks)
        require_host(folder, DesktopSettings())
        folder.mkdir(parents=True, exist_ok=True)
        known = {} if self.anew else read_records(folder)
        records = {
            task.sha256: known[task.sha256]
            for task in tasks
            if task.sha256 in known and _is_as_good(known[task.sha256], source.version, self)
        }
        if records:
            tell(f"{len(records)} of {len(tasks)} were tried before; --anew tries them again")
        left = [task for task in tasks if task.sha256 not in records]
        write_lists(folder, records.values(), lacks)
        try:
            for record in self._admit(left, source):
                records[record.task_sha256] = record
                append_record(folder, record)
                write_lists(folder, records.values(), lacks)  # it may be killed at any moment
        except KeyboardInterrupt as stop:
            hint = "run it again: what was tried need not be tried anew"
            raise Interrupted(f"stopped by a signal; {hint}") from stop
        bad = [record for record in records.values() if not record.is_admitted]
        undecided = sum(record.is_undecided for record in bad)
        found = Admitted(
            admitted=len(records) - len(bad),
            quarantined=len(bad) - undecided,
            undecided=undecided,
            unread=lacks,
            folder=folder,
            tasks=tuple(records.values()),
        )
        lines = [f"{record.task_id} is {_said(record)}" for record in bad]
        lines += [f"cannot be read: {line}" for line in lacks]
        lines.append(f"{found.admitted} of {len(records)} tasks are admitted: {folder / REPORT}")
        show(found, "\n".join(lines), as_json=self.json)
        return int(bool(bad or lacks))

    def _admit(self, tasks: list[Task], source: CheckerSource) -> Iterator[Admission]:
        """Try some tasks, several at once, and tell how it goes."""
        if not tasks:
            return
        began = time.monotonic()
        gates: queue.SimpleQueue[Gate] = queue.SimpleQueue()

        def admit(task: Task) -> Admission:
            gate = gates.get()
            try:
                return gate.admit(task, bundled_solution(task))
            finally:
                gates.put(gate)

        with keep_logs(node="admit"), owning("admit"), ExitStack() as stack:
            launcher = stack.enter_context(Launcher())
            pool = ThreadPoolExecutor(self.desktops)
            stack.callback(pool.shutdown, wait=True)
            for _ in range(min(self.desktops, len(tasks))):
                gate = Gate(source, lambda: Sandbox(launcher), repeats=self.repeats)
                stack.callback(gate.close)
                gates.put(gate)
            # Whoever stops it need not wait: what is left is let go of, then desktops are closed.
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            futures: list[Future[Admission]] = [pool.submit(admit, task) for task in tasks]
            for done, future in enumerate(as_completed(futures), 1):
                left_s = (time.monotonic() - began) / done * (len(tasks) - done)
                tell(_line(future.result(), done, len(tasks), left_s))
                yield future.result()


def _line(record: Admission, done: int, count: int, left_s: float) -> str:
    said = _said(record)
    left = f", about {left_s / 60:.0f} min left" if done < count else ""
    return f"[{done}/{count}] {record.task_id} ({record.wall_s:.0f} s{left}): {said}"


def _said(record: Admission) -> str:
    if record.is_admitted:
        return "admitted"
    if record.is_undecided:
        return f"undecided ({record.reason}): see `envs-node doctor`, and try it again"
    return f"quarantined: {record.reason}"


def _is_as_good(record: Admission, checker: str, verb: Admit) -> bool:
    is_decided = not record.is_undecided and record.checker == checker
    return is_decided and record.repeats >= verb.repeats
