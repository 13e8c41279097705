"""Looks on at every search of a simulation, and notes what must never be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from envs_node.deploy.sim.world import World
from envs_node.messages.actions import Fail, Finish
from envs_node.messages.base import ActorName, BranchId, Message, TaskId
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import (
    Assign,
    Idle,
    LeafReached,
    LeaseLapsed,
    NodeReached,
    Renewed,
    Step,
)
from envs_node.messages.tasks import Task
from envs_node.policy.task_search import TaskSearch

MakeSearch = Callable[[Task, SearchSettings], TaskSearch]
_JUDGED = ("success", "failure")


class Held(msgspec.Struct, kw_only=True):
    """A branch in somebody's hands."""

    assign: Assign
    holder: ActorName
    since_ns: int
    until_ns: int


class TaskRecord:
    """What was seen of one task's search, over all its lives."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.held: dict[BranchId, Held] = {}
        self.assigned: dict[tuple[BranchId, int], Assign] = {}
        self.accepted: dict[tuple[BranchId, int], LeafReached] = {}
        self.branches: set[BranchId] = set()
        self.actions = 0
        """Of the judged branches that this life of the search knows of."""
        self.heard: set[tuple[BranchId, int]] = set()
        """Of those accepted, the ones that this life of the search knows of."""

    def forget_life(self) -> None:
        """The search starts anew: what it holds is built up again."""
        self.held.clear()
        self.heard.clear()
        self.actions = 0

    def release(self, worker: ActorName) -> None:
        """A worker that asks for work holds none."""
        for branch_id in [b for b, held in self.held.items() if held.holder == worker]:
            del self.held[branch_id]

    def give_back(self, branch_id: BranchId, lease: int) -> None:
        """A lease was refused: it is over for its holder, whatever its time."""
        held = self.held.get(branch_id)
        if held is not None and held.assign.lease == lease:
            held.until_ns = 0

    def lapse(self, now_ns: int, lease_ns: int) -> None:
        """What was not renewed is over. A clock that was set back makes no lease longer."""
        for branch_id, held in list(self.held.items()):
            held.until_ns = min(held.until_ns, now_ns + lease_ns)
            if now_ns >= held.until_ns:
                del self.held[branch_id]

    def leaves(self, verdict: str = "") -> int:
        """Accepted leaves of the search itself that were judged, or judged so."""
        return sum(
            1
            for leaf in self.accepted.values()
            if leaf.kind in ("explore", "rollout")
            and leaf.verdict is not None
            and leaf.verdict.verdict in _JUDGED
            and (not verdict or leaf.verdict.verdict == verdict)
        )


class Watch:
    """Sees what searches are asked and answer, and what reaches the head."""

    def __init__(self, world: World, make_search: MakeSearch) -> None:
        self._world = world
        self._make_search = make_search
        self.tasks: dict[TaskId, TaskRecord] = {}
        self.violations: list[str] = []
        self.refusals: list[str] = []
        self._waits: dict[str, tuple[str, float]] = {}
        """Who was struck and has not been heard of since: the kind of fault, and when."""
        self.recoveries_s: dict[str, list[float]] = {}

    def make_search(self, task: Task, settings: SearchSettings) -> TaskSearch:
        """A search that is watched."""
        record = self.tasks.setdefault(task.id, TaskRecord(task))
        record.forget_life()
        search = self._make_search(task, settings)
        return cast(TaskSearch, _Watched(search, record, settings, self))

    def struck(self, who: str, kind: str, now_s: float) -> None:
        """Somebody was struck by a fault; how long until it is heard of again?"""
        self._waits.setdefault(who, (kind, now_s))

    def heard(self, who: str, now_s: float) -> None:
        """Somebody does its work."""
        if who in self._waits:
            kind, struck_s = self._waits.pop(who)
            self.recoveries_s.setdefault(kind, []).append(now_s - struck_s)

    def complain(self, words: str) -> None:
        """Note what must never be; a hundred are enough."""
        if len(self.violations) < 100:
            self.violations.append(words)

    def true_verdict(self, record: TaskRecord, steps: tuple[Step, ...]) -> str:
        """What the world says of the steps of a branch."""
        state, count = self._world.first(record.task), 0
        for step in steps:
            if not isinstance(step.action, Finish | Fail):
                state, count = self._world.after(state, step.action), count + 1
        return _JUDGED[not self._world.is_success(record.task, state, count)]


class _Watched:
    """A `TaskSearch` that is looked at; what is not watched is passed on."""

    def __init__(
        self, search: TaskSearch, record: TaskRecord, settings: SearchSettings, watch: Watch
    ) -> None:
        self._search = search
        self._record = record
        self._settings = settings
        self._watch = watch
        self._lease_ns = settings.lease_ms * 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)

    def next_work(self, worker: ActorName, now_ns: int) -> Assign | Idle:
        """Watched."""
        answer = self._search.next_work(worker, now_ns)
        self._record.release(worker)
        self._record.lapse(now_ns, self._lease_ns)
        if isinstance(answer, Assign):
            self._lent(answer, worker, now_ns)
        return answer

    def renew(self, branch_id: BranchId, lease: int, now_ns: int) -> Renewed | LeaseLapsed:
        """Watched."""
        answer = self._search.renew(branch_id, lease, now_ns)
        self._reported("Renew", branch_id, lease, now_ns, answer)
        return answer

    def node_reached(self, report: NodeReached, now_ns: int) -> Renewed | LeaseLapsed:
        """Watched."""
        answer = self._search.node_reached(report, now_ns)
        self._reported("NodeReached", report.branch_id, report.lease, now_ns, answer)
        return answer

    def leaf_reached(self, report: LeafReached, *more: Any) -> Renewed | LeaseLapsed:
        """Watched."""
        answer = self._search.leaf_reached(report, *more)
        key = (report.branch_id, report.lease)
        if isinstance(answer, Renewed) and key not in self._record.heard:
            self._accepted(report)
        elif isinstance(answer, LeaseLapsed):
            self._record.give_back(report.branch_id, report.lease)
        return answer

    def lapse(self, now_ns: int) -> None:
        """Watched."""
        self._search.lapse(now_ns)
        self._record.lapse(now_ns, self._lease_ns)

    def freed(self, worker: ActorName, now_ns: int) -> None:
        """Watched: a worker that asked for work elsewhere holds none here."""
        self._search.freed(worker, now_ns)
        self._record.release(worker)

    def _lent(self, assign: Assign, worker: ActorName, now_ns: int) -> None:
        record, branch_id = self._record, assign.branch_id
        before = record.held.get(branch_id)
        if before is not None and before.until_ns:
            self._watch.complain(
                f"{branch_id} is lent to {worker} (lease {assign.lease}) while "
                f"{before.holder} holds lease {before.assign.lease}"
            )
        is_new, limit = branch_id not in record.branches, self._settings.actions_task_max
        record.branches.add(branch_id)
        if is_new and assign.kind == "explore" and record.actions >= limit:
            self._watch.complain(f"{branch_id} is explored after {record.actions} actions")
        known = record.assigned.setdefault((branch_id, assign.lease), assign)
        if known != assign:
            self._watch.complain(f"lease {assign.lease} of {branch_id} is lent twice, differently")
        if before is not None and assign.lease <= before.assign.lease:
            self._watch.complain(f"{branch_id}: lease {assign.lease} is not above the last")
        until_ns = now_ns + self._lease_ns
        record.held[branch_id] = Held(
            assign=assign, holder=worker, since_ns=now_ns, until_ns=until_ns
        )

    def _reported(
        self, what: str, branch_id: BranchId, lease: int, now_ns: int, answer: Message
    ) -> None:
        if not isinstance(answer, Renewed):
            self._record.give_back(branch_id, lease)
            return
        held = self._record.held.get(branch_id)
        if held is None or held.assign.lease != lease:
            now = "nobody" if held is None else f"lease {held.assign.lease}"
            self._watch.complain(
                f"{what} of {branch_id} under lease {lease} is taken, but {now} holds it"
            )
        else:
            held.until_ns = max(held.until_ns, now_ns + self._lease_ns)

    def _accepted(self, report: LeafReached) -> None:
        record, watch = self._record, self._watch
        held = record.held.pop(report.branch_id, None)
        if held is None or held.assign.lease != report.lease:
            watch.complain(
                f"LeafReached of {report.branch_id} under lease {report.lease} is taken, "
                f"but {'nobody' if held is None else f'lease {held.assign.lease}'} holds it"
            )
        key = (report.branch_id, report.lease)
        record.heard.add(key)
        if record.accepted.setdefault(key, report) != report:
            watch.complain(f"the rebuilt search took another report of {report.branch_id}")
        verdict = report.verdict.verdict if report.verdict is not None else ""
        if verdict not in ("", "infra"):
            record.actions += report.cost.replayed_actions + report.cost.new_actions
        if verdict in _JUDGED:
            truth = watch.true_verdict(record, report.steps)
            if verdict != truth:
                watch.complain(f"{report.branch_id} was judged {verdict}, and is a {truth}")
