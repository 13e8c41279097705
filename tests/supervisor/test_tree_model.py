"""Random supervisors and random misfortunes, under virtual time, beside what must always hold."""

from __future__ import annotations

from random import Random

import msgspec
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.supervisor.child import ChildSpec, Restart
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.tally import SupervisorError
from envs_node.supervisor.tree import Strategy, Supervisor

WINDOW_S = 20.0


class Fate(msgspec.Struct, frozen=True):
    """One life of a child, in tenths of a second."""

    up_after: int
    lasts: int
    how: str
    """`start`, `crash`, `end` or `stay`; with a `!` it also raises when it is torn down."""


class Plan(msgspec.Struct, frozen=True):
    """A supervisor, its children's fates, and what is asked of it when."""

    strategy: Strategy
    burst: int
    rules: tuple[Restart, ...]
    fates: tuple[tuple[Fate, ...], ...]
    added_at: tuple[int, ...]
    removed_at: tuple[int, ...]
    stop_at: int


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a child."""

    at_s: float
    name: str
    what: str
    """`born`, `up`, `crashed`, `ended` or `cancelled`."""


class Theatre:
    """Plays a plan and writes down what happens."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.events: list[Event] = []
        self.has_failed = False
        self.stopped_s = 0.0

    def spec(self, name: str, rule: Restart, fates: tuple[Fate, ...]) -> ChildSpec:
        left = list(fates)

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            fate = left.pop(0) if left else Fate(0, 0, "stay")
            how = fate.how.rstrip("!")
            self.note(name, "born")
            try:
                await trio.sleep(fate.up_after / 10)
                if how == "start":
                    self.note(name, "crashed")
                    raise RuntimeError("start")
                self.note(name, "up")
                task_status.started()
                await trio.sleep(fate.lasts / 10 if how != "stay" else 10_000)
            except trio.Cancelled:
                self.note(name, "cancelled")
                if fate.how.endswith("!"):
                    raise ValueError("teardown") from None
                raise
            if how == "crash":
                self.note(name, "crashed")
                raise RuntimeError("crash")
            self.note(name, "ended")

        return ChildSpec(name=name, start=start, restart=rule)

    def note(self, name: str, what: str) -> None:
        self.events.append(Event(round(trio.current_time(), 6), name, what))

    async def play(self) -> None:
        plan = self.plan
        specs = [
            self.spec(f"c{number}", rule, fates)
            for number, (rule, fates) in enumerate(zip(plan.rules, plan.fates, strict=True))
        ]
        intensity = Intensity(burst=plan.burst, window_s=WINDOW_S, first_s=0.1, jitter=0)
        tree = Supervisor(
            "house", specs, strategy=plan.strategy, intensity=intensity, chance=Random(0)
        )
        async with trio.open_nursery() as nursery:
            for number, at in enumerate(plan.added_at):
                fates = (Fate(0, 5, "crash"),)
                nursery.start_soon(self._add, tree, at, self.spec(f"d{number}", "on_crash", fates))
            for number, at in enumerate(plan.removed_at):
                nursery.start_soon(self._remove, tree, at, f"c{number}")
            nursery.start_soon(self._stop, tree)
            try:
                await tree.run()
            except SupervisorError:
                self.has_failed = True
            assert tree.statistics()["up"] == 0
            nursery.cancel_scope.cancel()

    async def _add(self, tree: Supervisor, at: int, spec: ChildSpec) -> None:
        await trio.sleep(at / 10)
        await tree.start_child(spec)

    async def _remove(self, tree: Supervisor, at: int, name: str) -> None:
        await trio.sleep(at / 10)
        await tree.stop_child(name)

    async def _stop(self, tree: Supervisor) -> None:
        await trio.sleep(self.plan.stop_at / 10 + 0.001)  # never the moment of anything else
        self.stopped_s = round(trio.current_time(), 6)
        tree.stop()


fates = st.builds(
    Fate, st.integers(0, 8), st.integers(0, 30),
    st.sampled_from(["start", "crash", "crash!", "end", "stay", "stay!"]),
)  # fmt: skip


@st.composite
def plans(draw: st.DrawFn, *, is_plain: bool = False) -> Plan:
    """Supervisors of up to four children; plain ones are left alone until they are stopped."""
    count = draw(st.integers(1, 4))
    strategies: list[Strategy] = ["one_for_one", "rest_for_one", "one_for_all"]
    rules: list[Restart] = ["always", "on_crash", "never"]
    moments = st.lists(st.integers(0, 60), max_size=0 if is_plain else 2).map(tuple)
    return Plan(
        draw(st.sampled_from(strategies[:1] if is_plain else strategies)),
        draw(st.integers(0, 6)),
        tuple(draw(st.sampled_from(rules)) for _ in range(count)),
        tuple(tuple(draw(st.lists(fates, max_size=5))) for _ in range(count)),
        draw(moments),
        draw(moments),
        draw(st.integers(0, 200)),
    )


def played(plan: Plan) -> Theatre:
    theatre = Theatre(plan)
    trio.run(theatre.play, clock=trio.testing.MockClock(autojump_threshold=0))
    return theatre


@settings(max_examples=150, deadline=None)
@given(plans())
def test_what_holds_for_every_supervisor(plan: Plan) -> None:
    theatre = played(plan)

    rules = {f"c{number}": rule for number, rule in enumerate(plan.rules)}
    last: dict[str, str] = {}
    for event in theatre.events:
        before = last.get(event.name)
        if event.what == "born":
            assert before not in ("born", "up"), f"two {event.name} at once"
            if before is not None:
                rule = rules.get(event.name, "on_crash")
                assert rule != "never", f"{event.name} was not to come back"
                assert before != "ended" or rule == "always" or plan.strategy != "one_for_one"
        last[event.name] = event.what
    assert not {"born", "up"} & {*last.values()}, "somebody lives on"


@settings(max_examples=150, deadline=None)
@given(plans(is_plain=True))
def test_children_left_alone_start_in_order_stop_in_reverse_and_are_counted_exactly(
    plan: Plan,
) -> None:
    theatre = played(plan)

    firsts = list(dict.fromkeys(e.name for e in theatre.events if e.what == "born"))
    assert firsts == sorted(firsts), "started out of order"
    end_s = theatre.events[-1].at_s if theatre.has_failed else theatre.stopped_s
    stopped = [e.name for e in theatre.events if e.what == "cancelled" and e.at_s >= end_s]
    assert stopped == sorted(stopped, reverse=True), "stopped out of order"
    assert theatre.has_failed == _is_too_much(theatre), theatre.events


def _is_too_much(theatre: Theatre) -> bool:
    """Whether more ends fell within a window than may be answered by a restart."""
    rules = {f"c{number}": rule for number, rule in enumerate(theatre.plan.rules)}
    counted: list[float] = []
    for event in theatre.events:
        rule = rules[event.name]
        if (event.what == "crashed" and rule != "never") or (
            event.what == "ended" and rule == "always"
        ):
            counted.append(event.at_s)
            if sum(event.at_s - at < WINDOW_S for at in counted) > theatre.plan.burst:
                return True
    return False
