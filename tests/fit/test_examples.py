"""Examples: each shared step once, whatever the order of the ledger."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from envs_node.fit.examples import collect_examples
from envs_node.messages.actions import Finish, Key
from envs_node.messages.base import BranchId, TaskId
from envs_node.messages.desktop import Observation, Signature
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step
from envs_node.messages.verify import Verdict

MakeTrajectory = Callable[..., Trajectory]
NOWHERE = Signature(frame="", tiles=b"", columns=0, windows=(), focus="", elements="", files="")
SCREEN = Observation(width=9, height=9, elements=(), signature=NOWHERE, time_ns=0)

paths = st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from("xyz"), max_size=4)))


def walk(task: str, path: list[str], number: int = 0) -> Trajectory:
    steps = tuple(
        Step(
            observation=SCREEN, action=Key(keys=(name,)), fingerprint=name, text=name,
            log_prob=-1.0, reached=NOWHERE, changed=True,
        )
        for name in path
    )  # fmt: skip
    return Trajectory(
        id=f"{number}", task_id=TaskId(task), task_sha256="", template="t", split="train",
        instruction="go", branch_id=BranchId("b"), path=tuple(path), steps=steps,
        verdict=Verdict(verdict="success"), is_certified=True, policy="p", success_rate=0.5,
    )  # fmt: skip


@given(paths)
def test_training_sees_each_shared_step_once(walks: list[tuple[str, list[str]]]) -> None:
    trajectories = [walk(task, path, i) for i, (task, path) in enumerate(walks)]

    found = collect_examples(trajectories, certified_only=True)

    names = [(example.task_id, example.path) for example in found.examples]
    prefixes = {(task, tuple(path[: i + 1])) for task, path in walks for i in range(len(path))}
    assert len(names) == len(set(names))
    assert set(names) == prefixes
    assert found.before_sharing == sum(len(path) for _, path in walks)


@given(paths, st.integers())
def test_the_order_of_the_ledger_does_not_matter(
    walks: list[tuple[str, list[str]]], seed: int
) -> None:
    trajectories = [walk(task, path, i) for i, (task, path) in enumerate(walks)]
    shuffled = random.Random(seed).sample(trajectories, len(trajectories))

    first = collect_examples(trajectories, certified_only=True)

    assert collect_examples(shuffled, certified_only=True) == first


def test_a_step_sees_the_actions_before_it_and_none_after() -> None:
    found = collect_examples([walk("a", ["x", "y", "z"])], certified_only=True)

    assert [example.state.history for example in found.examples] == [
        (),
        (Key(keys=("x",)),),
        (Key(keys=("x",)), Key(keys=("y",))),
    ]
    assert [example.action for example in found.examples][-1] == Key(keys=("z",))


def test_what_was_not_certified_is_left_out_unless_asked_for(
    make_trajectory: MakeTrajectory,
) -> None:
    both = [make_trajectory(1), make_trajectory(2, is_certified=False)]

    assert collect_examples(both, certified_only=True).trajectories == 1
    assert collect_examples(both, certified_only=False).trajectories == 2


def test_the_closing_finish_is_learned_too(make_trajectory: MakeTrajectory) -> None:
    found = collect_examples([make_trajectory(1)], certified_only=True)

    assert isinstance(found.examples[-1].action, Finish)
    assert msgspec.msgpack.encode(found.examples)
