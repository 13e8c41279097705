"""While no budget binds, any order of events and any faults end in the same tree and successes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages.actions import Action, Finish, Type
from envs_node.messages.base import ActorName
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Assign, Idle, LeafReached, LossCause, NodeReached
from envs_node.policy.fingerprint import fingerprint
from tests.fakes import START, FakeScreen
from tests.policy.drive import BROKEN, LEASE_NS, drive, judged, make_search

WORKERS = [ActorName(f"work/{number}") for number in range(3)]
CAUSES: tuple[LossCause, ...] = ("task", "desktop", "policy", "verifier", "head")
EXHAUSTIVE = SearchSettings(
    leaves_task_max=10**6,
    successes_task_max=10**6,
    actions_task_max=10**9,
    looks_max=2,
    branches_node_max=2,
    steps_max=6,
    lease_ms=1000,
    infra_retries_max=10**6,
    interruptions_max=10**6,
)
LETTERS = [Type(text=letter) for letter in "abc"]


def random_tree(seed: int) -> FakeScreen:
    """An application whose every path leads to a state of its own, three actions deep."""
    chance = random.Random(seed)
    moves: dict[tuple[str, str], str] = {}
    proposals: dict[str, tuple[tuple[Action, int], ...]] = {}
    successes = set()
    states = [START]
    while states:
        state = states.pop()
        depth = state.count("/")
        supports = chance.choice([(8,), (5, 3), (4, 4), (3, 3, 2), (4, 3, 1)])
        actions: list[Action] = list(LETTERS) if depth < 3 else [Finish()]
        if 0 < depth < 3 and chance.random() < 0.4:
            actions[chance.randrange(len(supports))] = Finish()
        proposals[state] = tuple(zip(actions, supports, strict=False))
        if chance.random() < 0.3 and depth:
            successes.add(state)
        for action, _ in proposals[state]:
            if not isinstance(action, Finish):
                name = fingerprint(action)
                moves[state, name] = f"{state}/{name[-1]}"
                states.append(moves[state, name])
    return FakeScreen(moves=moves, proposals=proposals, successes=frozenset(successes))


def random_graph(seed: int) -> FakeScreen:
    """As a tree, but states are reached by many paths: it remembers how many of each letter."""
    tree = random_tree(seed)

    def merged(state: str) -> str:
        return "/".join([START, *sorted(state.split("/")[1:])])

    moves: dict[tuple[str, str], str] = {}
    proposals: dict[str, Sequence[tuple[Action, int]]] = {}
    for state in sorted(tree.proposals):
        proposals.setdefault(merged(state), tree.proposals[state])
    for state, drawn in proposals.items():
        for action, _ in drawn:
            name = fingerprint(action)
            if isinstance(action, Type):
                moves[state, name] = merged(f"{state}/{name[-1]}")
    successes = frozenset(merged(state) for state in tree.successes)
    return FakeScreen(moves=moves, proposals=proposals, successes=successes)


class Storm:
    """A search, its workers and everything that can go wrong between them."""

    def __init__(self, screen: FakeScreen, draw: Callable[[int], int]) -> None:
        self.screen = screen
        self.draw = draw
        self.now_ns = 0
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.search = make_search(EXHAUSTIVE)
        self.certified: set[tuple[str, ...]] = set()
        self.held: dict[ActorName, tuple[Assign, list[NodeReached], LeafReached]] = {}
        self.said: list[NodeReached | LeafReached] = []

    def call(self, name: str, *arguments: Any) -> Any:
        self.calls.append((name, arguments))
        return getattr(self.search, name)(*arguments)

    def tell(self, report: NodeReached | LeafReached) -> None:
        self.said.append(report)
        name = "node_reached" if isinstance(report, NodeReached) else "leaf_reached"
        self.call(name, report, self.now_ns)
        for trajectory in self.call("take_admissions"):
            assert trajectory.is_certified
            self.certified.add(trajectory.path)
            self.call("admitted", trajectory)

    def ask(self, worker: ActorName) -> Idle | None:
        answer = self.call("next_work", worker, self.now_ns)
        if isinstance(answer, Idle):
            self.held.pop(worker, None)
            return answer
        nodes, leaf = drive(self.screen, answer)
        self.held[worker] = (answer, list(nodes), leaf)
        return None

    def go_on(self, worker: ActorName) -> None:
        """Report the next state, or the leaf."""
        if worker in self.held:
            _, nodes, leaf = self.held[worker]
            self.tell(nodes.pop(0) if nodes else leaf)
            if self.said[-1] is leaf:
                del self.held[worker]

    def lose(self, worker: ActorName) -> None:
        """The branch breaks, wherever it stands."""
        if worker in self.held:
            _, _, leaf = self.held.pop(worker)
            broken = judged(leaf, BROKEN if self.draw(2) else None)
            self.tell(msgspec.structs.replace(broken, cause=CAUSES[self.draw(len(CAUSES))]))

    def restart(self) -> None:
        """The search crashes, and is rebuilt from what it heard."""
        self.search = make_search(EXHAUSTIVE)
        for name, arguments in self.calls:
            getattr(self.search, name)(*arguments)

    def happen(self) -> None:
        worker = WORKERS[self.draw(len(WORKERS))]
        match self.draw(12):
            case 0 | 1:
                self.ask(worker)
            case 2 | 3 | 4 | 5 | 6:
                self.go_on(worker)
            case 7:
                self.lose(worker)
            case 8:  # said again, late or early, under whatever lease
                if self.said:
                    self.tell(self.said[self.draw(len(self.said))])
            case 9:
                self.now_ns += LEASE_NS * self.draw(40) // 10
            case 10:
                self.held.pop(worker, None)  # killed: nobody hears of it
            case _:
                self.restart()

    def run_out(self) -> None:
        """The storm is over, and one worker is left."""
        for _ in range(3000):
            self.now_ns += LEASE_NS // 2
            answer = self.ask(WORKERS[0])
            if answer is None:
                while WORKERS[0] in self.held:
                    self.go_on(WORKERS[0])
            elif answer.is_over:
                return
        raise AssertionError("the search does not end")


def _storm_and_calm(screen: FakeScreen, seed: int, events: int) -> tuple[Storm, Storm]:
    calm = Storm(screen, lambda _: 0)
    calm.run_out()
    storm = Storm(screen, random.Random(seed).randrange)
    for _ in range(events):
        storm.happen()
    storm.run_out()
    return storm, calm


seeds = st.integers(0, 10**6)
counts = st.integers(0, 240)


@settings(max_examples=100, deadline=None)
@given(world=seeds, storm_seed=seeds, events=counts)
def test_whatever_happens_the_same_tree_and_the_same_successes_are_found(
    world: int, storm_seed: int, events: int
) -> None:
    storm, calm = _storm_and_calm(random_tree(world), storm_seed, events)

    assert storm.certified == calm.certified
    assert storm.search.tree.nodes() == calm.search.tree.nodes()
    told, expected = storm.search.progress(), calm.search.progress()
    assert (told.state, told.lost, told.leaves) == (expected.state, 0, expected.leaves)


@settings(max_examples=60, deadline=None)
@given(world=seeds, storm_seed=seeds, events=counts)
def test_where_paths_meet_the_same_successes_are_found(
    world: int, storm_seed: int, events: int
) -> None:
    storm, calm = _storm_and_calm(random_graph(world), storm_seed, events)

    assert storm.certified == calm.certified


def test_a_seed_follows_from_what_a_branch_is() -> None:
    screen = random_tree(4)
    storms = [Storm(screen, random.Random(seed).randrange) for seed in (1, 2)]
    found: list[dict[tuple[Any, ...], int]] = []
    for storm in storms:
        for _ in range(60):
            storm.happen()
        storm.run_out()
        leaves = [report for report in storm.said if isinstance(report, LeafReached)]
        assert leaves
        found.append(_seeds(storm))

    common = found[0].keys() & found[1].keys()
    assert len(common) > 5
    assert all(found[0][meaning] == found[1][meaning] for meaning in common)


def _seeds(storm: Storm) -> dict[tuple[Any, ...], int]:
    """The seed of each branch that was handed out, by its meaning."""
    search = make_search(EXHAUSTIVE)
    found: dict[tuple[Any, ...], int] = {}
    for name, arguments in storm.calls:
        answer = getattr(search, name)(*arguments)
        if isinstance(answer, Assign):
            path = tuple(step.fingerprint for step in answer.prefix)
            off = answer.strike_off.fingerprint if answer.strike_off else ""
            meaning = (answer.kind, path, off, answer.temperature)
            assert found.setdefault(meaning, answer.seed) == answer.seed
    return found
