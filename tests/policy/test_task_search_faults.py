"""What others break is tried again; what makes no sense is refused; what is said twice is one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from envs_node.messages.actions import Wait
from envs_node.messages.base import ActorName, TaskId
from envs_node.messages.search import Assign, Idle, LeaseLapsed, LossCause, Renewed
from envs_node.policy.fingerprint import fingerprint
from envs_node.policy.task_search import TaskSearch
from tests.fakes import note_screen
from tests.policy.drive import (
    SETTINGS,
    SUCCEEDED,
    WORKER,
    drive,
    judged,
    lent,
    make_search,
    pass_gate,
)


def lost(search: TaskSearch, assign: Assign, cause: LossCause, now_ns: int = 0) -> None:
    leaf = judged(drive(note_screen(), assign)[1], None)
    search.leaf_reached(msgspec.structs.replace(leaf, cause=cause), now_ns)


@pytest.mark.parametrize("cause", ["head", "policy"])
def test_what_others_break_is_sent_out_again_far_more_often(cause: LossCause) -> None:
    search = make_search()
    pass_gate(search)
    now_ns = 0

    for _ in range(20):
        now_ns += 31 * 10**9
        lost(search, lent(search, now_ns), cause, now_ns)

    progress = search.progress()
    assert (progress.lost, progress.reassigned, progress.branches) == (0, 20, 21)


def test_a_branch_that_always_breaks_is_given_up_in_the_end_and_its_task_refused() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, interruptions_max=3, looks_max=1))
    pass_gate(search)
    now_ns = 0

    for _ in range(4):
        now_ns += 31 * 10**9
        lost(search, lent(search, now_ns), "policy", now_ns)
    answer = search.next_work(WORKER, now_ns + 31 * 10**9)

    assert answer == Idle(retry_ms=0, is_over=True)
    progress = search.progress()
    assert (progress.state, progress.cause, progress.lost) == ("refused", "policy", 1)


def test_while_the_policy_is_away_the_search_waits_and_says_so() -> None:
    search = make_search()
    pass_gate(search)
    lost(search, lent(search), "policy")

    waiting = [search.next_work(ActorName(f"work/{n}"), 10**8) for n in range(3)]

    assert all(isinstance(a, Idle) and not a.is_over for a in waiting)
    # It is asked again when the rest is over, 1 s after the loss, and not ten times before.
    assert waiting == [Idle(retry_ms=900)] * 3
    assert search.progress().state == "running"
    assert "waits for the policy" in search.progress().detail
    branch = lent(search, 2 * 10**9)
    search.node_reached(drive(note_screen(), branch)[0][0], 2 * 10**9)
    assert search.progress().detail == ""


def test_a_worker_that_asks_again_holds_nothing_any_more() -> None:
    search = make_search()
    first = lent(search)

    second = lent(search)

    assert second.branch_id == first.branch_id
    assert isinstance(search.renew(first.branch_id, first.lease, 0), LeaseLapsed)
    assert search.progress().reassigned == 1


def test_a_search_begun_under_another_number_refuses_the_reports_of_the_first() -> None:
    old, new = make_search(), make_search()
    old.begin(1000)
    new.begin(2000)
    stranger = drive(note_screen(), lent(old))[1]
    ours = lent(new)

    answer = new.leaf_reached(stranger, 0)

    assert (ours.branch_id, ours.search_id) == (stranger.branch_id, 2000)
    assert isinstance(answer, LeaseLapsed)


@pytest.mark.parametrize(
    "change",
    [
        {"task_id": TaskId("another")},
        {"buckets": ()},
        {"followed": "what nobody proposed"},
        {"path": ("type hi", "from nowhere")},
    ],
)
def test_a_state_that_makes_no_sense_is_refused_and_its_branch_goes_to_another(
    change: dict[str, Any],
) -> None:
    search = make_search()
    pass_gate(search)
    assign = lent(search)
    node = msgspec.structs.replace(drive(note_screen(), assign)[0][0], **change)

    answer = search.node_reached(node, 0)

    assert isinstance(answer, LeaseLapsed)
    assert "makes no sense" in answer.reason
    assert search.progress().nodes == 0
    assert lent(search).branch_id == assign.branch_id


@pytest.mark.parametrize("change", [{"task_id": TaskId("another")}, {"kind": "certify"}])
def test_a_leaf_of_something_else_is_refused_and_its_branch_goes_to_another(
    change: dict[str, Any],
) -> None:
    search = make_search()
    pass_gate(search)
    assign = lent(search)
    leaf = msgspec.structs.replace(drive(note_screen(), assign)[1], **change)

    assert isinstance(search.leaf_reached(leaf, 0), LeaseLapsed)
    assert search.progress().leaves == 0
    assert lent(search).branch_id == assign.branch_id


def test_a_node_told_twice_is_one_and_two_equal_steps_are_two() -> None:
    wait = Wait()
    screen = msgspec.structs.replace(
        note_screen(), proposals={"empty": ((wait, 8),)}, successes=frozenset()
    )
    search = make_search(msgspec.structs.replace(SETTINGS, steps_max=2))
    pass_gate(search)
    nodes, _ = drive(screen, lent(search))

    for node in (*nodes, *nodes, nodes[-1]):
        assert isinstance(search.node_reached(node, 0), Renewed)

    assert [node.path for node in nodes] == [(), (fingerprint(wait),)]
    assert search.progress().nodes == 2


def test_what_a_fault_wasted_is_paid_by_no_budget() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, actions_task_max=4))
    pass_gate(search)

    lost(search, lent(search), "head")

    progress = search.progress()
    assert (progress.new_actions, progress.wasted_actions > 0) == (0, True)


def test_nobody_but_its_holder_ends_a_branch() -> None:
    search = make_search()
    pass_gate(search)
    assign = lent(search)
    _, leaf = drive(note_screen(), assign)

    stranger = search.leaf_reached(judged(leaf, SUCCEEDED), 0, ActorName("work/other"))
    holder = search.leaf_reached(leaf, 0, WORKER)

    assert isinstance(stranger, LeaseLapsed)
    assert isinstance(holder, Renewed)
    assert search.progress().refused == 1


@pytest.mark.parametrize("kind", ["skips", "goes on", "does otherwise"])
def test_a_certification_of_other_steps_is_refused_and_nothing_is_admitted(kind: str) -> None:
    search = make_search()
    pass_gate(search)
    assign = lent(search)
    while assign.kind != "certify":
        nodes, leaf = drive(note_screen(), assign)
        for node in nodes:
            search.node_reached(node, 0)
        search.leaf_reached(leaf, 0)
        assign = lent(search)
    _, leaf = drive(note_screen(), assign)
    other = msgspec.structs.replace(leaf.steps[0], action=Wait(wait_ms=1))
    steps = {
        "skips": leaf.steps[:-1],
        "goes on": (*leaf.steps, leaf.steps[-1]),
        "does otherwise": (other, *leaf.steps[1:]),
    }[kind]

    answer = search.leaf_reached(msgspec.structs.replace(leaf, steps=steps), 0)

    assert isinstance(answer, LeaseLapsed)
    assert search.take_admissions() == ()
    again = lent(search)
    assert (again.kind, again.branch_id) == ("certify", assign.branch_id)
    search.leaf_reached(drive(note_screen(), again)[1], 0)
    assert len(search.take_admissions()) == 1
