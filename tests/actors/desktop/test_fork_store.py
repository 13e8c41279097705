"""Fork points: found by key, within a budget, given up when they are long unused or wrong."""

from __future__ import annotations

import threading

import pytest
from msgspec import structs

from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError, LauncherError
from envs_node.actors.desktop.fork.forker import Dump
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.store import LEFT_S_MAX, UNUSED_S_MAX, ForkStore, Notes
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.messages.actions import Key, Type
from tests.fakes_desktop import make_task

MIB = 1 << 20
NOTES = Notes(parts={"wm": 7}, seen=(), frames={})


class FakeForking:
    """Every desktop takes 300 MiB."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.live: list[int] = []
        self.count = 0
        self.breaks = breaks
        self.is_gone = False
        self.hold: threading.Event | None = None
        self.begun = threading.Event()

    def dump(self, pid: int, *, bytes_max: int) -> Dump:
        self.begun.set()
        if self.hold is not None:
            self.hold.wait(5)
        if self.breaks:
            raise LauncherError(f"dump of {pid} into {bytes_max}: no")
        self.count += 1
        self.live.append(self.count)
        return Dump(point=self.count, size_bytes=300 * MIB, wall_ms=200)

    def restore(self, point: int, kind: DesktopKind) -> int:
        return 1000 * point + kind.width % 10

    def drop(self, point: int) -> None:
        if self.is_gone:
            raise DesktopLostError("the launcher is gone")
        self.live.remove(point)


class Clock:
    """Stands still until it is moved."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_deepest_of_the_keys_that_are_kept_is_lent() -> None:
    store = ForkStore(FakeForking(), bytes_max=1000 * MIB)
    for key in ("a", "b"):
        store.keep(key, 1, NOTES)

    with store.borrowed(["a", "b", "c"]) as found:
        assert found is not None
        assert (found[0], found[1].key) == (1, "b")
    with store.borrowed(["c"]) as found:
        assert found is None


def test_the_least_used_gives_way_when_the_budget_is_spent() -> None:
    forking, clock = FakeForking(), Clock()
    store = ForkStore(forking, bytes_max=650 * MIB, clock=clock)
    for key in ("a", "b"):
        clock.now_s += 1
        store.keep(key, 1, NOTES)
    clock.now_s += 1
    with store.borrowed(["a"]):
        pass

    store.keep("c", 1, NOTES)

    assert {point.key for point in store.points()} == {"a", "c"}
    assert forking.live == [1, 3]
    assert store.statistics()["evicted"] == 1
    assert store.statistics()["bytes"] == 600 * MIB


def test_pictures_that_are_kept_with_a_desktop_count_as_what_it_takes() -> None:
    store = ForkStore(FakeForking(), bytes_max=610 * MIB)
    seen = Notes(parts={}, seen=(), frames={"x": bytes(20 * MIB)})
    store.keep("a", 1, seen)
    assert store.statistics()["bytes"] == 320 * MIB

    with store.borrowed(["a"]), pytest.raises(ForkRefusedError):
        store.keep("b", 1, seen)


def test_what_is_lent_is_not_dropped_before_it_is_back() -> None:
    forking = FakeForking()
    store = ForkStore(forking, bytes_max=400 * MIB)
    point = store.keep("a", 1, NOTES)

    with store.borrowed(["a"]):
        with pytest.raises(ForkRefusedError):
            store.keep("b", 1, NOTES)
        store.failed(point, "it differs")
        assert store.points() == ()
        assert forking.live == [1]

    assert forking.live == []


def test_a_host_short_of_memory_keeps_nothing_and_gives_up_what_it_has() -> None:
    spare = [4000 * MIB]
    forking = FakeForking()
    store = ForkStore(forking, bytes_max=4000 * MIB, available_bytes=lambda: spare[0])
    store.keep("a", 1, NOTES)
    spare[0] = 100 * MIB

    with pytest.raises(ForkRefusedError, match="short of memory"):
        store.keep("b", 1, NOTES)

    assert forking.live == []
    assert not store.give_up_oldest()


def test_what_nobody_asked_for_goes_when_the_next_is_kept() -> None:
    forking, clock = FakeForking(), Clock()
    store = ForkStore(forking, bytes_max=4000 * MIB, clock=clock)
    store.keep("a", 1, NOTES)
    clock.now_s += UNUSED_S_MAX + 1

    store.keep("b", 1, NOTES)

    assert [point.key for point in store.points()] == ["b"]


def test_a_desktop_that_cannot_be_written_out_is_a_refusal() -> None:
    store = ForkStore(FakeForking(breaks=True), bytes_max=4000 * MIB)

    with pytest.raises(ForkRefusedError, match="dump of 5"):
        store.keep("a", 5, NOTES)

    assert store.points() == ()
    assert store.statistics()["refused"] == 1


def test_the_same_state_is_kept_once_and_by_one_desktop_at_a_time() -> None:
    forking = FakeForking()
    forking.hold = threading.Event()
    store = ForkStore(forking, bytes_max=4000 * MIB)
    first = threading.Thread(target=store.keep, args=("a", 1, NOTES))
    first.start()
    try:
        assert forking.begun.wait(5)
        with pytest.raises(ForkRefusedError, match="just now"):
            store.keep("a", 2, NOTES)
    finally:
        forking.hold.set()
        first.join()

    assert store.keep("a", 2, NOTES).dump.point == 1
    assert forking.count == 1


def test_clones_that_fail_again_and_again_are_offered_no_more() -> None:
    store = ForkStore(FakeForking(), bytes_max=4000 * MIB)
    store.is_offered = True
    for number in range(5):
        assert store.is_offered
        store.failed(store.keep(str(number), 1, NOTES), "it differs")

    assert not store.is_offered


def test_a_store_closes_though_its_launcher_is_gone() -> None:
    forking = FakeForking()
    store = ForkStore(forking, bytes_max=4000 * MIB)
    for key in ("a", "b"):
        store.keep(key, 1, NOTES)
    forking.is_gone = True

    store.close()

    assert store.points() == ()


def test_a_key_follows_from_the_task_and_every_action_in_order() -> None:
    task, other = make_task(template="a"), make_task(template="b")
    hi, save = Type(text="hi"), Key(keys=("ctrl", "s"))

    keys = prefix_keys(task, (hi, save))

    assert len(set(keys)) == 3
    assert prefix_keys(task, (hi,)) == keys[:2]
    assert prefix_keys(task, (save, hi))[2] != keys[2]
    assert prefix_keys(other, (hi,))[1] != keys[1]


def test_a_task_that_no_desktop_is_at_any_more_gives_way_first_and_soon() -> None:
    forking, clock, desktop, other = FakeForking(), Clock(), Clock(), Clock()
    store = ForkStore(forking, bytes_max=650 * MIB, clock=clock)
    for who in (desktop, other):
        store.turn(who, "old")
    store.turn(other, "new")
    for key, task in (("a", "new"), ("b", "old")):
        store.keep(key, 1, structs.replace(NOTES, task=task))
        clock.now_s += 1
    store.turn(desktop, "new")

    store.keep("c", 1, structs.replace(NOTES, task="new"))
    assert [point.key for point in store.points()] == ["a", "c"], "not by age alone"

    del desktop, other, who
    clock.now_s += LEFT_S_MAX + 1
    store.keep("d", 1, NOTES)
    assert [point.key for point in store.points()] == ["d"], "a desktop that is gone is at no task"
