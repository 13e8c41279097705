"""A world is a function of its seed: asked in any order, it answers the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envs_node.deploy.sim.world import World, WorldPolicy, WorldSettings
from envs_node.messages.actions import Click, Finish
from envs_node.messages.propose import State
from envs_node.policy.agreement import bucket_proposals

PATHS = st.lists(st.integers(0, 2), max_size=5)


def _walk(world: World, path: list[int]) -> str:
    state = world.first(world.tasks[0])
    for number in path:
        actions = [action for action, _ in world.weights(state)]
        state = world.after(state, actions[number % len(actions)])
    return state


@given(st.integers(0, 50), st.lists(PATHS, min_size=2, max_size=6))
def test_what_a_world_answers_does_not_depend_on_the_order_of_questions(
    seed: int, paths: list[list[int]]
):
    forth, back = World(WorldSettings(seed=seed)), World(WorldSettings(seed=seed))

    first = [forth.observe(_walk(forth, path)) for path in paths]
    second = [back.observe(_walk(back, path)) for path in reversed(paths)]

    assert first == second[::-1]


@given(st.integers(0, 50), PATHS)
def test_the_policy_agrees_with_itself_whatever_its_seed(seed: int, path: list[int]):
    world = World(WorldSettings(seed=seed))
    policy = WorldPolicy(world)
    state = State(instruction="", observation=world.observe(_walk(world, path)))

    first, second = (
        policy.propose(state, samples=8, temperature=0.7, seed=chance) for chance in (1, 2)
    )

    assert first == second
    assert sum(bucket.support for bucket in bucket_proposals(first)) == 8


@given(st.integers(0, 50), st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_every_walk_comes_to_a_finish(seed: int, path: list[int]):
    world = World(WorldSettings(seed=seed, depth=4, idle_rate=0.0))
    state = world.first(world.tasks[0])

    for number in path:
        action = max(world.weights(state), key=lambda pair: pair[1])[0]
        if isinstance(action, Finish):
            break
        assert isinstance(action, Click)
        state = world.after(state, world.weights(state)[number][0])

    assert isinstance(max(world.weights(state), key=lambda pair: pair[1])[0], Finish)
