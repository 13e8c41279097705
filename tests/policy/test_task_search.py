"""One task's search lends each branch to one desktop, counts each report once, and ends."""

from __future__ import annotations

import msgspec
import pytest

from envs_node.messages.base import ActorName
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import (
    Assign,
    Idle,
    LeafReached,
    LeaseLapsed,
    Renewed,
)
from envs_node.messages.verify import Verdict
from envs_node.policy.task_search import TaskSearch
from tests.fakes import START, FakeScreen, note_screen, signature_of
from tests.policy.drive import (
    BROKEN,
    FAILED,
    LEASE_NS,
    SETTINGS,
    SUCCEEDED,
    WORKER,
    drive,
    judged,
    lent,
    make_search,
    pass_gate,
)


def report(
    search: TaskSearch,
    assign: Assign,
    *,
    verdict: Verdict | str | None = "",
    screen: FakeScreen | None = None,
) -> LeafReached:
    """Drive a branch and hand in what comes of it; a verdict given overrides the screen's."""
    nodes, leaf = drive(screen or note_screen(), assign)
    for node in nodes:
        search.node_reached(node, 0)
    if not isinstance(verdict, str):
        leaf = judged(leaf, verdict)
    search.leaf_reached(leaf, 0)
    return leaf


def admit_all(search: TaskSearch) -> tuple[Trajectory, ...]:
    admissions = search.take_admissions()
    for trajectory in admissions:
        search.admitted(trajectory)
    return admissions


def run_to_end(search: TaskSearch) -> list[Assign]:
    """One desktop that answers everything by the screen."""
    sent: list[Assign] = []
    for _ in range(200):
        answer = search.next_work(WORKER, 0)
        if isinstance(answer, Idle):
            assert answer.is_over, "one worker alone has nothing to wait for"
            return sent
        sent.append(answer)
        report(search, answer)
        admit_all(search)
    raise AssertionError("the search does not end")


def test_the_untouched_start_is_judged_first_and_alone() -> None:
    search = make_search()

    assert lent(search).kind == "gate"
    waiting = search.next_work(ActorName("work/1"), 0)

    assert isinstance(waiting, Idle)
    assert not waiting.is_over


def test_a_task_that_passes_untouched_is_vacuous_and_not_searched() -> None:
    search = make_search()

    report(search, lent(search), verdict=SUCCEEDED)

    assert search.next_work(WORKER, 0) == Idle(retry_ms=0, is_over=True)
    assert search.progress().state == "vacuous"


@pytest.mark.parametrize("verdict", [BROKEN, None])
def test_a_start_that_breaks_is_tried_again_and_then_refused(verdict: Verdict | None) -> None:
    search = make_search()

    for _ in range(1 + SETTINGS.infra_retries_max):
        assert not search.is_over
        report(search, lent(search), verdict=verdict)

    assert search.is_over
    progress = search.progress()
    assert (progress.state, progress.reassigned, progress.lost) == ("refused", 1, 1)
    assert (progress.detail, progress.cause) == (
        ("the checker could not judge the task's start: no answer", "verifier")
        if verdict
        else ("the task's start could not be reached: set-up step 1: no such file", "")
    )


def test_a_start_that_cannot_be_judged_is_refused_with_the_reason() -> None:
    search = make_search()

    report(search, lent(search), verdict=Verdict(verdict="checker_error", reason="no such metric"))

    assert search.progress().state == "refused"
    assert "no such metric" in search.progress().detail


def test_a_whole_search_finds_each_distinct_success_once() -> None:
    search = make_search()

    sent = run_to_end(search)

    progress = search.progress()
    assert (progress.state, progress.distinct) == ("solved", 2)
    assert [assign.kind for assign in sent].count("certify") == 2
    assert progress.verified == 2
    assert "successes_task_max" in progress.detail


def test_a_success_is_certified_before_anything_else_is_tried() -> None:
    search = make_search()
    pass_gate(search)
    report(search, lent(search))

    certify = lent(search)

    assert certify.kind == "certify"
    assert [step.fingerprint for step in certify.prefix] == ["type hi", "key ctrl+s", "finish"]


def test_a_certified_success_names_the_policy_that_found_it() -> None:
    search = make_search()
    pass_gate(search)
    report(search, lent(search))
    report(search, lent(search))

    (trajectory,) = admit_all(search)

    assert (trajectory.is_certified, trajectory.policy) == (True, "table")


def test_a_certification_that_fails_is_tried_whole_and_then_kept_as_not_certified() -> None:
    search = make_search()
    pass_gate(search)
    nodes, leaf = drive(note_screen(), lent(search))
    for node in nodes:
        search.node_reached(node, 0)
    idle = msgspec.structs.replace(leaf.steps[0], fingerprint="wait", changed=False)
    search.leaf_reached(msgspec.structs.replace(leaf, steps=(idle, *leaf.steps)), 0)

    short = lent(search)
    report(search, short, verdict=FAILED)
    full = lent(search)
    report(search, full, verdict=FAILED)

    assert (short.kind, full.kind) == ("certify", "certify")
    assert len(full.prefix) == len(short.prefix) + 1
    (trajectory,) = admit_all(search)
    assert not trajectory.is_certified
    progress = search.progress()
    assert (progress.uncertified, progress.certified, progress.distinct) == (1, 0, 0)


def test_a_success_counts_once_it_was_reproduced_as_often_in_a_row_as_is_asked_for() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, certify_replays=3))
    pass_gate(search)
    report(search, lent(search))

    replays = []
    for _ in range(3):
        assert admit_all(search) == ()
        replays.append(lent(search))
        report(search, replays[-1])

    assert {replay.kind for replay in replays} == {"certify"}
    assert len({replay.prefix for replay in replays}) == 1
    assert len({replay.branch_id for replay in replays}) == 3
    (trajectory,) = admit_all(search)
    assert trajectory.is_certified
    assert lent(search).kind == "explore"


def test_a_success_that_is_reproduced_only_now_and_then_is_not_certified() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, certify_replays=3))
    pass_gate(search)
    report(search, lent(search))

    report(search, lent(search))
    report(search, lent(search))
    report(search, lent(search), verdict=FAILED)

    (trajectory,) = admit_all(search)
    assert not trajectory.is_certified


def test_the_next_branch_strikes_off_where_the_policy_agreed_most() -> None:
    search = make_search()
    pass_gate(search)
    report(search, lent(search), verdict=FAILED)

    branch = lent(search)

    assert branch.strike_off is not None
    assert [step.fingerprint for step in branch.prefix] == []
    assert branch.strike_off.fingerprint == "click 1x1 push button: Menu"
    assert branch.strike_off.support == 3


def test_what_only_one_sample_proposed_earns_no_branch() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, leaves_task_max=50))

    sent = run_to_end(search)

    struck = {assign.strike_off.fingerprint for assign in sent if assign.strike_off}
    at_start = {a.strike_off.fingerprint for a in sent if a.strike_off and not a.prefix}
    assert "finish" not in struck
    assert at_start == {"click 1x1 push button: Menu"}


def test_a_failure_is_not_bought_twice_from_equal_states() -> None:
    settings = msgspec.structs.replace(SETTINGS, leaves_task_max=50, successes_task_max=50)
    search = make_search(settings)
    pass_gate(search)
    struck = []
    for _ in range(50):
        answer = search.next_work(WORKER, 0)
        if isinstance(answer, Idle):
            break
        report(search, answer, verdict=FAILED)
        if answer.strike_off is not None:
            reached = answer.prefix[-1].reached if answer.prefix else None
            struck.append((reached and reached.windows, answer.strike_off.fingerprint))

    assert len(struck) == len(set(struck)) > 0


def test_what_the_checker_cannot_judge_proves_nothing() -> None:
    unsure = Verdict(verdict="checker_error", reason="it crashed")
    search = make_search()
    pass_gate(search)

    report(search, lent(search), verdict=unsure)
    report(search, lent(search), verdict=unsure)

    progress = search.progress()
    assert progress.leaves == 0
    # `typed` was reached through the menu too: its other bucket is still worth a desktop there.
    assert lent(search).strike_off is not None


def test_rollouts_are_one_greedy_and_the_sampled_ones_and_never_branch() -> None:
    search = make_search(msgspec.structs.replace(SETTINGS, rollouts=3))

    sent = run_to_end(search)

    assert [(a.kind, a.is_greedy) for a in sent] == [
        ("gate", False),
        ("rollout", True),
        *[("rollout", False)] * 3,
    ]
    assert len({assign.seed for assign in sent}) == len(sent)
    assert search.progress().rollouts == ((True, True), *((False, True),) * 3)


def test_a_lapsed_branch_is_lent_to_another_under_a_higher_number() -> None:
    search = make_search()
    first = lent(search, 0)

    second = search.next_work(ActorName("work/1"), LEASE_NS)

    assert isinstance(second, Assign)
    assert second.branch_id == first.branch_id
    assert second.lease > first.lease
    assert search.progress().reassigned == 1


def test_the_late_report_of_a_lapsed_branch_is_refused_even_when_it_is_over() -> None:
    search = make_search()
    first = lent(search, 0)
    second = lent(search, LEASE_NS)
    _, late = drive(note_screen(), first)
    report(search, second)

    answers = [search.leaf_reached(late, 0) for _ in range(2)]

    assert all(isinstance(answer, LeaseLapsed) for answer in answers)
    assert search.progress().refused == 1
    assert search.progress().verdicts == (("failure", 1),)


def test_a_broken_report_that_comes_twice_is_answered_alike() -> None:
    search = make_search()
    assign = lent(search)
    leaf = judged(drive(note_screen(), assign)[1], None)

    answers = [search.leaf_reached(leaf, 0) for _ in range(2)]

    assert answers == [Renewed(branch_id=assign.branch_id, lease=assign.lease)] * 2
    assert (search.progress().reassigned, search.progress().refused) == (1, 0)


def test_a_success_that_the_ledger_kept_before_a_crash_is_counted_once() -> None:
    search = make_search()
    pass_gate(search)
    report(search, lent(search))
    report(search, lent(search))
    (trajectory,) = search.take_admissions()

    search.admitted(msgspec.structs.replace(trajectory, is_certified=False))
    search.admitted(trajectory)
    search.admitted(trajectory)

    assert search.progress().distinct == 1


def test_every_branch_with_a_prefix_knows_the_start_that_was_recorded() -> None:
    plenty = msgspec.structs.replace(SETTINGS, leaves_task_max=20, successes_task_max=20)
    search = make_search(plenty)
    pass_gate(search)

    sent = run_to_end(search)

    replayed = [assign for assign in sent if assign.prefix]
    assert {assign.kind for assign in replayed} == {"explore", "certify"}
    assert {assign.start for assign in replayed} == {signature_of(START)}
    assert all(assign.start is None for assign in sent if not assign.prefix)
