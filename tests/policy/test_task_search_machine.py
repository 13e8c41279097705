"""Any order of asking, reporting, lapsing and breaking keeps a task's search honest."""

from __future__ import annotations

from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from envs_node.messages.base import ActorName
from envs_node.messages.search import Assign, Idle, LeafReached, LeaseLapsed, NodeReached, Renewed
from tests.fakes import note_screen
from tests.policy.drive import (
    BROKEN,
    FAILED,
    LEASE_NS,
    SETTINGS,
    WORKER,
    drive,
    judged,
    make_search,
)


class TaskSearchMachine(RuleBasedStateMachine):
    """Three desktops, any order of events, any fault; a model beside it keeps who holds what."""

    held = Bundle("held")
    done = Bundle("done")

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.search = make_search()
        self.calls: list[tuple[str, tuple[Any, ...], Any]] = []
        self.holders: dict[str, tuple[str, int, int]] = {}
        self.owed: set[str] = set()
        self.losses: dict[str, int] = {}
        self.last_lease = 0
        self.reassigned = self.refused = self.judged = self.lost = 0
        self.answered: dict[tuple[str, int], Any] = {}
        self.known: set[str] = set()
        self.is_over = False

    def call(self, name: str, *arguments: Any) -> Any:
        answer = getattr(self.search, name)(*arguments)
        self.calls.append((name, arguments, answer))
        return answer

    def model_lapse(self) -> None:
        for branch_id in [b for b, (_, _, until) in self.holders.items() if self.now_ns >= until]:
            self.interrupt(branch_id)

    def model_free(self, worker: str) -> None:
        for branch_id in [b for b, (holder, _, _) in self.holders.items() if holder == worker]:
            self.interrupt(branch_id)

    def interrupt(self, branch_id: str) -> None:
        """A fault of others: it is sent out again, and nothing is held against it."""
        del self.holders[branch_id]
        self.owed.add(branch_id)
        self.reassigned += 1

    def lose(self, branch_id: str) -> None:
        losses = self.losses[branch_id] = self.losses.get(branch_id, 0) + 1
        if losses <= SETTINGS.infra_retries_max:
            self.owed.add(branch_id)
            self.reassigned += 1
        else:
            self.lost += 1

    @rule(
        target=held,
        worker=st.sampled_from(("work/0", "work/1", "work/2")),
        looks=st.sampled_from((True, True, True, False)),
    )
    def ask(self, worker: str, looks: bool) -> Any:
        self.model_free(worker)
        self.model_lapse()
        answer = self.call("next_work", ActorName(worker), self.now_ns)
        if isinstance(answer, Idle):
            if answer.is_over:
                assert not self.holders, "over while a branch is under way"
            assert answer.is_over or not self.is_over, "over, and then not"
            self.is_over = answer.is_over
            return multiple()
        assert not self.is_over, "work after the end"
        assert answer.branch_id not in self.holders, "two holders of one branch"
        assert answer.lease > self.last_lease, "a fencing number that is not the highest"
        self.last_lease = answer.lease
        self.holders[answer.branch_id] = (worker, answer.lease, self.now_ns + LEASE_NS)
        self.owed.discard(answer.branch_id)
        if looks:
            self.reach_nodes(answer)
        return answer

    @rule(assign=held)
    def reach_nodes(self, assign: Assign) -> None:
        for node in drive(note_screen(), assign)[0]:
            self._renewed(node, self.call("node_reached", node, self.now_ns), assign)

    @rule(assign=held)
    def renew(self, assign: Assign) -> None:
        answer = self.call("renew", assign.branch_id, assign.lease, self.now_ns)
        self._renewed(assign, answer, assign)

    def _renewed(self, _what: Assign | NodeReached, answer: Any, assign: Assign) -> None:
        worker, lease, _ = self.holders.get(assign.branch_id, ("", -1, 0))
        if lease == assign.lease:  # over or not: nobody took it back
            assert isinstance(answer, Renewed)
            self.holders[assign.branch_id] = (worker, lease, self.now_ns + LEASE_NS)
        else:
            assert isinstance(answer, LeaseLapsed)

    @rule(
        target=done,
        assign=consumes(held),
        verdict=st.sampled_from(("screen", "screen", "screen", "failure", "infra", "none")),
    )
    def report(self, assign: Assign, verdict: str) -> LeafReached:
        leaf = drive(note_screen(), assign)[1]
        fixed = {"failure": FAILED, "infra": BROKEN, "none": None}
        if verdict in fixed:
            leaf = judged(leaf, fixed[verdict])
        self._hand_in(leaf)
        return leaf

    @rule(leaf=done)
    def repeat(self, leaf: LeafReached) -> None:
        self._hand_in(leaf)

    def _hand_in(self, leaf: LeafReached) -> None:
        key = (leaf.branch_id, leaf.lease)
        answer = self.call("leaf_reached", leaf, self.now_ns)
        if key in self.answered:
            assert answer == self.answered[key], "a repeated report, another answer"
            return
        self.answered[key] = answer
        if self.holders.get(leaf.branch_id, ("", -1, 0))[1] != leaf.lease:
            assert isinstance(answer, LeaseLapsed)
            self.refused += 1
            return
        assert isinstance(answer, Renewed)
        del self.holders[leaf.branch_id]
        is_judged = leaf.verdict is not None and leaf.verdict.verdict != "infra"
        self.judged += int(is_judged and leaf.kind == "explore")
        if not is_judged:
            self.lose(leaf.branch_id)
        for trajectory in self.call("take_admissions"):
            self.known.add(trajectory.id)
            self.call("admitted", trajectory)

    @rule(milliseconds=st.sampled_from((1, 400, 999, 1000, 2500)), ticks=st.booleans())
    def wait(self, milliseconds: int, ticks: bool) -> None:
        self.now_ns += milliseconds * 1_000_000
        if ticks:
            self.model_lapse()
            self.call("lapse", self.now_ns)

    @invariant()
    def counts_agree(self) -> None:
        progress = self.search.progress()
        assert progress.leaves == self.judged <= SETTINGS.leaves_task_max
        assert progress.refused == self.refused
        assert (progress.reassigned, progress.lost) == (self.reassigned, self.lost)
        assert progress.distinct <= len(self.known)

    def teardown(self) -> None:
        self._run_out()
        self._repeat_all()

    def _run_out(self) -> None:
        """With one desktop that answers, the search comes to its end."""
        for _ in range(200):
            self.now_ns += 2 * LEASE_NS
            self.model_free(WORKER)
            self.model_lapse()
            answer = self.call("next_work", WORKER, self.now_ns)
            if isinstance(answer, Idle):
                if answer.is_over:
                    break
                continue  # what broke often rests
            self.holders[answer.branch_id] = (WORKER, answer.lease, self.now_ns + LEASE_NS)
            self.owed.discard(answer.branch_id)
            nodes, leaf = drive(note_screen(), answer)
            for node in nodes:
                self.call("node_reached", node, self.now_ns)
            self._hand_in(leaf)
        else:
            raise AssertionError("the search does not end")
        self.counts_agree()
        assert not self.owed, "a branch was lost and never sent out again"
        assert self.search.progress().state in ("solved", "exhausted", "vacuous", "refused")

    def _repeat_all(self) -> None:
        """The same messages give the same decisions."""
        fresh = make_search()
        for name, arguments, answer in self.calls:
            assert getattr(fresh, name)(*arguments) == answer
        assert fresh.progress() == self.search.progress()


TestTaskSearch = TaskSearchMachine.TestCase
TestTaskSearch.settings = hypothesis_settings(
    max_examples=80, stateful_step_count=50, deadline=None
)
