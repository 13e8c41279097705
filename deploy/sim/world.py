"""A world made from a seed: tasks as state machines, what a policy does in them, and their times.

Everything is a function of the seed, the task and the path, so that no result depends on who
asks when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from random import Random

import msgspec

from envs_node.messages.actions import Action, Click, Finish, Target
from envs_node.messages.base import TaskId
from envs_node.messages.desktop import Element, Observation, Signature
from envs_node.messages.propose import Proposal, State
from envs_node.messages.tasks import Task

_SIZE = (640, 480)
_FIRST = "s"
_UNIT = float(2**64)


class Latencies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Means, in seconds, of what takes time. One draw in fifty takes five times as long."""

    reset_s: float = 2.0
    act_s: float = 0.6
    propose_s: float = 0.01
    verify_s: float = 0.5
    ledger_s: float = 0.005


class WorldSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tasks are like."""

    seed: int = 1
    tasks: int = 8
    branching: int = 3
    """Actions of a state that lead on."""
    depth: int = 5
    """Actions after which the policy finishes at the latest; half of that at the earliest."""
    success_rate: float = 0.3
    """Of the states in which the policy finishes."""
    idle_rate: float = 0.1
    """Of the actions: those that change nothing."""
    fragile_rate: float = 0.1
    """Of the successes: those that need the steps that changed nothing, too."""
    vacuous_rate: float = 0.03
    """Of the tasks: those that pass when nothing is done."""
    latencies: Latencies = Latencies()


class World:
    """Answers what happens where. States are named by the steps that changed something."""

    def __init__(self, settings: WorldSettings) -> None:
        self.settings = settings
        self._observations: dict[str, Observation] = {}
        self._names: dict[str, str] = {}

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks."""
        return tuple(self._task(number) for number in range(self.settings.tasks))

    def first(self, task: Task) -> str:
        """The state in which a task starts."""
        return f"{task.id}/{_FIRST}"

    def after(self, state: str, action: Action) -> str:
        """The state that an action leads to: another, or the same."""
        if not isinstance(action, Click) or action.target is None:
            return state
        number = action.target.name
        if self._share("idle", state, number) < self.settings.idle_rate:
            return state
        return f"{state}.{number}"

    def is_success(self, task: Task, state: str, steps: int) -> bool:
        """Whether a task is done in a state that took so many steps, idle ones included."""
        if state == self.first(task):
            return self._share("vacuous", state) < self.settings.vacuous_rate
        if self._share("success", state) >= self.settings.success_rate:
            return False
        is_fragile = self._share("fragile", state) < self.settings.fragile_rate
        return not is_fragile or steps > _depth(state)

    def observe(self, state: str) -> Observation:
        """What a state looks like."""
        seen = self._observations.get(state)
        if seen is None:
            seen = self._observations[state] = _observation(state)
            self._names[seen.signature.frame] = state
        return seen

    def weights(self, state: str) -> tuple[tuple[Action, float], ...]:
        """What the policy would do in a state, and how often."""
        depth, most = _depth(state), self.settings.depth
        is_early = depth * 2 >= most and self._share("finish", state) < 0.4
        if depth >= most or is_early:
            return ((Finish(), 0.85), (self._click(state, 0), 0.15))
        shares = [0.2 + self._share("weight", state, str(i)) for i in range(self._branching)]
        total = sum(shares)
        return tuple((self._click(state, i), share / total) for i, share in enumerate(shares))

    def state_of(self, observation: Observation) -> str:
        """Which state it is that is seen."""
        return self._names[observation.signature.frame]

    def takes_s(self, kind: str, place: str) -> float:
        """How long something takes at a place."""
        mean_s: float = getattr(self.settings.latencies, f"{kind}_s")
        share = self._share(kind, place)
        return mean_s * (5.0 if share > 0.98 else 0.5 + share)

    @property
    def _branching(self) -> int:
        return self.settings.branching

    def _click(self, state: str, number: int) -> Click:
        return Click(x=20, y=20, target=Target(role="push button", name=str(number)))

    def _task(self, number: int) -> Task:
        name = f"sim-{number:04d}"
        digest = hashlib.sha256(f"{self.settings.seed}/{name}".encode()).hexdigest()
        return Task(
            id=TaskId(name),
            instruction=f"Solve {name}.",
            template="sim",
            split="train",
            apps=("sim",),
            json=b'{"evaluator": {}}',
            sha256=digest,
        )

    def _share(self, *parts: str) -> float:
        """A number from 0 up to 1 that these words always give."""
        words = f"{self.settings.seed}|{'|'.join(parts)}".encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big") / _UNIT


class WorldPolicy:
    """The policy of a world: the same proposals in the same state, whatever the seed."""

    needs_pixels = False

    def __init__(self, world: World) -> None:
        self._world = world
        self.name = f"world {world.settings.seed}"

    def propose(
        self, state: State, *, samples: int, temperature: float, seed: int, greedy: bool = False
    ) -> tuple[Proposal, ...]:
        """As many of each action as its weight says; one sample alone is drawn by the seed."""
        weights = self._world.weights(self._world.state_of(state.observation))
        marks = [(k + 0.5) / samples for k in range(samples)]
        if samples == 1 and not greedy:
            marks = [Random(seed).random()]
        if greedy:
            best = max(weights, key=lambda pair: pair[1])[0]
            return tuple(_proposal(best) for _ in marks)
        return tuple(_proposal(_at(weights, mark)) for mark in marks)

    def score(self, state: State, candidates: Sequence[Action]) -> tuple[float, ...]:
        """Not asked in a simulation."""
        return tuple(-1.0 for _ in candidates)

    def entropy(self, state: State) -> float:
        """Of no use in a simulation."""
        return 1.0


def _at(weights: tuple[tuple[Action, float], ...], mark: float) -> Action:
    total = 0.0
    for action, weight in weights:
        total += weight
        if mark < total:
            return action
    return weights[-1][0]


def _proposal(action: Action) -> Proposal:
    return Proposal(action=action, text="", log_prob=-1.0)


def _depth(state: str) -> int:
    return state.rpartition("/")[2].count(".")


def _observation(state: str) -> Observation:
    digest = hashlib.sha256(state.encode()).digest()
    signature = Signature(
        frame=digest.hex()[:32],
        tiles=digest,
        columns=4,
        windows=("sim",),
        focus="sim",
        elements=digest.hex()[:16],
        files=digest.hex()[16:32],
    )
    return Observation(
        width=_SIZE[0],
        height=_SIZE[1],
        elements=(Element("push button", "0", "", 10, 10, 80, 20),),
        signature=signature,
        time_ns=0,
    )
