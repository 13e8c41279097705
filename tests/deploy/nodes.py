"""Real nodes of the product as processes: started, watched, killed by their id, and cleaned up."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from envs_node.messages.base import ActorName, Message
from envs_node.messages.journal import Entry, read_journal
from envs_node.messages.search import Assign, LeafReached, NodeReached, Renewed

ENVS_NODE = Path(sys.executable).with_name("envs-node")
_POLL_S = 0.05
ResultT = TypeVar("ResultT")


def wait_until(claim: Callable[[], ResultT | None], timeout_s: float, what: str) -> ResultT:
    """Poll a claim until it gives something."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        result = claim()
        if result:
            return result
        time.sleep(_POLL_S)
    raise AssertionError(f"not within {timeout_s:g} s: {what}")


class Node:
    """A process of `envs-node`. Its standard error is kept; on leaving it is stopped."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.name = name
        self._errors = folder / f"{name}.stderr"
        self._output = folder / f"{name}.stdout"
        with self._errors.open("wb") as errors, self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [ENVS_NODE, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                cwd=folder,
            )

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=25)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(timeout=10)
        if error is not None:
            sys.stderr.write(f"--- {self.name} said:\n{self.story()[-6000:]}\n")

    def story(self) -> str:
        """What it wrote to standard error so far."""
        return self._errors.read_text(errors="replace")

    def output(self) -> bytes:
        """What it wrote to standard output so far."""
        return self._output.read_bytes()

    def wait_for(self, pattern: str, timeout_s: float) -> str:
        """Wait until a line of its standard error matches; gives the first group."""

        def found() -> str | None:
            assert self.process.poll() is None, f"{self.name} ended early:\n{self.story()}"
            match = re.search(pattern, self.story())
            return match.group(1) if match else None

        return wait_until(found, timeout_s, f"{pattern!r} from {self.name}")


def descendants(pid: int) -> set[int]:
    """All processes below one, as this host counts them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            found.add(child)
            todo.append(child)
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of these processes that still run; one that only waits to be reaped does not."""
    running = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            running.add(pid)
    return running


def mounts() -> set[str]:
    """The mount points of this host, as this process sees them."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines}


def search_entries(journal: Path) -> list[Entry]:
    """What the searches of a run heard and answered so far."""
    if not any(journal.glob("*.journal")):
        return []
    return [e for e in read_journal(journal) if e.actor.startswith("search/") and e.envelope]


def branches_under_way(journal: Path, *, kind: str = "explore") -> dict[str, int]:
    """Branches that have reported a node and no leaf yet, and the lease they were lent under."""
    lent: dict[str, int] = {}
    reached: set[str] = set()
    for entry in search_entries(journal):
        assert entry.envelope is not None
        match entry.envelope.message:
            case Assign(branch_id=branch_id, lease=lease, kind=of_kind) if of_kind == kind:
                lent[branch_id] = lease
            case NodeReached(branch_id=branch_id):
                reached.add(branch_id)
            case LeafReached(branch_id=branch_id):
                lent.pop(branch_id, None)
    return {branch_id: lease for branch_id, lease in lent.items() if branch_id in reached}


def leases_and_reports(journal: Path) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The leases of each branch in order, and how many reports of it were accepted."""
    leases: dict[str, list[int]] = {}
    accepted: dict[str, int] = {}
    heard: dict[ActorName, Message] = {}
    """By search: others hear and answer while one waits for the ledger."""
    for entry in search_entries(journal):
        assert entry.envelope is not None
        message = entry.envelope.message
        if isinstance(message, Assign):
            leases.setdefault(message.branch_id, []).append(message.lease)
        elif entry.kind == "heard":
            heard[entry.actor] = message
        elif entry.kind == "answered" and isinstance(message, Renewed):
            leaf = heard.get(entry.actor)
            if isinstance(leaf, LeafReached):
                accepted[leaf.branch_id] = accepted.get(leaf.branch_id, 0) + 1
    return leases, accepted
