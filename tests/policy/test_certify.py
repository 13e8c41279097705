"""A success is tried again without its idle steps, then whole, and named by what changed."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.actions import Action, Fail, Finish, Type
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.search import BranchCost, LeafReached, ReplayCheck, Step
from envs_node.messages.verify import Verdict
from envs_node.policy.certify import certify_prefixes, to_trajectory, trajectory_id
from envs_node.policy.fingerprint import fingerprint
from tests.fakes import fake_task, note_screen, signature_of

TASK = fake_task()


def _step(action: Action, *, changed: bool, position: int = 0) -> Step:
    return Step(
        observation=note_screen().observe(f"s{position}"),
        action=action,
        fingerprint=fingerprint(action),
        text="words",
        log_prob=-1.0,
        reached=signature_of(f"s{position + 1}"),
        changed=changed,
    )


def _leaf(*steps: Step) -> LeafReached:
    return LeafReached(
        branch_id=BranchId("note-000#3"),
        task_id=TaskId("note-000"),
        lease=3,
        kind="explore",
        reason="finish",
        verdict=Verdict(verdict="success", score=1.0),
        steps=steps,
        cost=BranchCost(),
        replay=ReplayCheck(),
        policy="table",
    )


IDLE = _step(Type(text="idle"), changed=False)
HI = _step(Type(text="hi"), changed=True)
DONE = _step(Finish(), changed=False)


def test_idle_steps_are_left_out_first_and_the_whole_path_is_kept_for_a_second_try() -> None:
    short, full = certify_prefixes(_leaf(IDLE, HI, DONE))

    assert [step.fingerprint for step in short] == ["type hi", "finish"]
    assert [step.fingerprint for step in full] == ["type idle", "type hi", "finish"]


def test_a_shortened_path_is_not_compared_and_a_whole_one_is() -> None:
    short, full = certify_prefixes(_leaf(IDLE, HI))

    assert [step.reached for step in short] == [None]
    assert [step.reached for step in full] == [IDLE.reached, HI.reached]


def test_a_path_without_idle_steps_is_tried_once_and_whole() -> None:
    (full,) = certify_prefixes(_leaf(HI, DONE))

    assert [step.fingerprint for step in full] == ["type hi", "finish"]


def test_giving_up_stays_in_the_path_for_the_checker_must_hear_of_it() -> None:
    short = certify_prefixes(_leaf(IDLE, _step(Fail(), changed=False)))[0]

    assert [step.fingerprint for step in short] == ["fail"]


steps = st.lists(
    st.builds(_step, st.sampled_from([Type(text=t) for t in "abc"]), changed=st.booleans()),
    max_size=6,
).map(tuple)


@given(steps)
def test_the_short_path_holds_every_change_in_order(taken: tuple[Step, ...]) -> None:
    prefixes = certify_prefixes(_leaf(*taken))

    changes = [step.fingerprint for step in taken if step.changed]
    assert [step.fingerprint for step in prefixes[0]] == changes
    assert [step.fingerprint for step in prefixes[-1]] == [step.fingerprint for step in taken]


@given(steps, st.floats(0, 1))
def test_idle_steps_make_no_success_another(taken: tuple[Step, ...], rate: float) -> None:
    def admitted(*steps: Step) -> str:
        leaf = _leaf(*steps)
        return to_trajectory(TASK, leaf, "element", success_rate=rate, is_certified=True).id

    assert admitted(*taken, IDLE) == admitted(IDLE, *taken)
    assert admitted(*taken, HI) != admitted(*taken)


def test_a_trajectory_tells_its_task_its_policy_and_its_verdict() -> None:
    leaf = _leaf(IDLE, HI, DONE)

    trajectory = to_trajectory(TASK, leaf, "element", success_rate=0.25, is_certified=False)

    assert trajectory.path == ("type hi",)
    assert trajectory.steps == leaf.steps
    assert (trajectory.task_sha256, trajectory.template) == (TASK.sha256, "note")
    assert (trajectory.policy, trajectory.branch_id) == ("table", "note-000#3")
    assert (trajectory.success_rate, trajectory.is_certified) == (0.25, False)


def test_ids_tell_tasks_apart_and_where_one_step_ends() -> None:
    other = msgspec.structs.replace(TASK, sha256="0" * 64)

    ids = {
        trajectory_id(TASK.sha256, ("a", "b")),
        trajectory_id(TASK.sha256, ("ab",)),
        trajectory_id(TASK.sha256, ("a", "b", "")),
        trajectory_id(other.sha256, ("a", "b")),
    }

    assert len(ids) == 4
