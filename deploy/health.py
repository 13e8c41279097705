"""What a node says of itself with every heartbeat: its desktops, its troubles, and the way out."""

from __future__ import annotations

import os
import shutil
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.messages.base import ActorName, BranchId, DesktopId, Message
from envs_node.messages.lifecycle import Crashed
from envs_node.messages.search import Drive, LeafReached
from envs_node.messages.status import DesktopReport, DesktopState, NodeReport

_RECENT_S = 60.0
"""How long a restart, or a mark that ends by itself, counts as trouble."""
_REASONS_MAX = 8
_REASON_CHARS_MAX = 300
_DETAIL_CHARS_MAX = 200
_QUEUES_MAX = 32
_CRASHES_MAX = 256
_DISK_FLOOR_BYTES = 1 << 30
_MEMORY_FLOOR = 0.05
_LOAD_CPU_MAX = 8.0
_GIB = 1 << 30

Trouble = Callable[[], str]
"""Looks for one kind of trouble: a reason in plain words, or nothing."""


class Health:
    """The board on which the parts of one node write how they are. Bounded in every direction.

    Args:
        troubles: looked for at each report, such as `host_troubles`.
        queues: mailboxes where messages wait, and how many.
        refusals: messages and peers that were refused so far.
    """

    def __init__(
        self,
        *,
        troubles: tuple[Trouble, ...] = (),
        queues: Callable[[], tuple[tuple[ActorName, int], ...]] = tuple,
        refusals: Callable[[], int] = int,
        doing: Callable[[], str] = str,
    ) -> None:
        self._troubles = troubles
        self._queues = queues
        self._refusals = refusals
        self._doing = doing
        self._desktops: dict[DesktopId, DesktopReport] = {}
        self._marks: dict[str, tuple[str, float]] = {}
        """Reasons by key, and until when each counts."""
        self._crashes: deque[tuple[float, str, str]] = deque(maxlen=_CRASHES_MAX)
        """When, which child, with what error."""
        self._restarts = 0

    def desktop(
        self,
        desktop_id: DesktopId,
        state: DesktopState,
        *,
        branch_id: BranchId | None = None,
        detail: str = "",
    ) -> None:
        """A desktop is in this state now."""
        detail = detail[:_DETAIL_CHARS_MAX]
        self._desktops[desktop_id] = DesktopReport(
            desktop_id=desktop_id, state=state, branch_id=branch_id, detail=detail
        )

    def watched(self, replay: Ref, desktop_id: DesktopId) -> Ref:
        """The replay of a desktop, whose requests and answers tell what the desktop is at."""
        return _Watched(self, replay, desktop_id)

    def crashed(self, crashed: Crashed, desktop_id: DesktopId | None = None) -> None:
        """A supervisor saw a child die, of this desktop's slot if it is given."""
        child = crashed.child if desktop_id is None else f"{crashed.child}/{desktop_id}"
        self._restarts += 1
        if crashed.cause != "preempted":  # it went down with what it stands on, which is told of
            self._crashes.append((trio.current_time(), child, crashed.error))
        if desktop_id is not None:
            self.desktop(desktop_id, "starting", detail=crashed.error)

    def mark(self, key: str, reason: str, *, for_s: float = float("inf")) -> None:
        """Count as degraded for this reason, until it is cleared or the time is over."""
        self._marks[key] = (reason, trio.current_time() + for_s)

    def clear(self, key: str) -> None:
        """The reason of this key is gone, if it was there."""
        self._marks.pop(key, None)

    def report(self) -> NodeReport:
        """How the node is now."""
        waiting = sorted(self._queues(), key=lambda queue: -queue[1])
        return NodeReport(
            desktops=tuple(self._desktops.values()),
            queues=tuple(waiting[:_QUEUES_MAX]),
            restarts=self._restarts,
            refusals=self._refusals(),
            degraded=tuple(reason[:_REASON_CHARS_MAX] for reason in self._reasons()[:_REASONS_MAX]),
            doing=self._doing()[:_DETAIL_CHARS_MAX],
        )

    def _reasons(self) -> list[str]:
        now_s = trio.current_time()
        self._marks = {key: mark for key, mark in self._marks.items() if mark[1] > now_s}
        reasons = [reason for reason, _ in self._marks.values()]
        reasons += [reason for trouble in self._troubles if (reason := trouble())]
        recent = [crash for crash in self._crashes if crash[0] > now_s - _RECENT_S]
        errors = {child: error for _, child, error in recent}
        for child, count in Counter(child for _, child, _ in recent).most_common():
            times = "once" if count == 1 else f"{count} times"
            reasons.append(
                f"{child} crashed {times} within {_RECENT_S:.0f} s and was started again: "
                f"{errors[child]}; see child.crashed in the node's log"
            )
        for desktop in self._desktops.values():
            if desktop.state == "broken":
                reasons.append(
                    f"{desktop.desktop_id} is broken: {desktop.detail}; its branches go elsewhere"
                )
        return reasons


def host_troubles(folder: Path) -> tuple[Trouble, ...]:
    """What a host may lack: room where this folder is, memory, and processor time."""
    return (lambda: _disk(folder), _memory, _load)


class _Watched:
    def __init__(self, health: Health, ref: Ref, desktop_id: DesktopId) -> None:
        self._health = health
        self._ref = ref
        self._desktop_id = desktop_id

    @property
    def name(self) -> ActorName:
        """The actor's name."""
        return self._ref.name

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        """See `Ref.ask`."""
        if isinstance(message, Drive):
            branch_id = message.assign.branch_id
            self._health.desktop(self._desktop_id, "working", branch_id=branch_id)
        try:
            answer = await self._ref.ask(message, timeout_s=timeout_s)
        except (AskTimeoutError, ActorCrashedError) as error:
            self._health.desktop(self._desktop_id, "broken", detail=str(error))
            raise
        if isinstance(answer, LeafReached):
            is_broken = answer.reason == "infra" and answer.cause in ("", "desktop", "verifier")
            state: DesktopState = "broken" if is_broken else "idle"
            self._health.desktop(self._desktop_id, state, detail=answer.detail if is_broken else "")
        return answer

    def tell(self, message: Message) -> None:
        """See `Ref.tell`."""
        self._ref.tell(message)


def _disk(folder: Path) -> str:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    if free >= _DISK_FLOOR_BYTES:
        return ""
    return (
        f"{free / _GIB:.2f} GiB are free where {folder} is, less than "
        f"{_DISK_FLOOR_BYTES / _GIB:.0f}: make room, or the run will pause"
    )


def _memory() -> str:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return ""
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.split()[1:]}
    free, whole = kib.get("MemAvailable", 0), kib.get("MemTotal", 0)
    if not whole or free >= whole * _MEMORY_FLOOR:
        return ""
    return (
        f"{free / (1 << 20):.1f} of {whole / (1 << 20):.1f} GiB of memory are available: "
        "drive fewer desktops, --desktop.count"
    )


def _load() -> str:
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load < _LOAD_CPU_MAX * cpus:
        return ""
    return f"the load is {load:.0f} on {cpus} CPUs: drive fewer desktops, --desktop.count"
