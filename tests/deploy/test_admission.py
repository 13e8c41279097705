"""Rows D20 and D21: what does not fit is not started, and the limit and the way out are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from envs_node.deploy.admission import Admission, Host
from envs_node.deploy.admitted import AdmittedTree, Room
from envs_node.deploy.health import Health
from envs_node.deploy.idleness import Idleness
from envs_node.deploy.limits import Limit, Need, available_bytes, read_limits
from envs_node.supervisor.child import ChildSpec

MIB = 1 << 20
NEED = Need(memory_bytes=100 * MIB)


class FakeHost:
    """A host of so much memory, whose desktops have so much each. Their pid is their place."""

    def __init__(self, available: int = 1000 * MIB, load: float = 0.0) -> None:
        self.available = available
        self.used: dict[int, int] = {}
        self.load = load
        self.others: tuple[Limit, ...] = ()

    def host(self) -> Host:
        return Host(
            available_bytes=lambda: self.available - sum(self.used.values()),
            used_bytes=lambda pid: self.used[pid],
            limits=self.limits,
            load=lambda: self.load,
            cpus=2,
        )

    def limits(self, need: Need, *, spare_bytes: float, promised: int) -> tuple[Limit, ...]:
        memory = Limit(
            name="memory", free=spare_bytes, wanted=need.memory_bytes, detail="d", mend="m"
        )
        return (memory, *self.others)


def admission(fake: FakeHost, *, reserve: int = 100 * MIB) -> Admission:
    return Admission(NEED, reserve_bytes=reserve, load_cpu_max=8.0, host=fake.host())


def count_admitted(asked: Admission, most: int = 50, pid: Callable[[], int] = int) -> int:
    for number in range(most):
        if asked.ask(f"d-{number}", pid):
            return number
    return most


def test_available_memory_is_less_than_all_memory():
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024

    assert 0 < available_bytes() < total


def test_what_is_promised_counts_before_it_is_used() -> None:
    """Nine desktops of 100 MiB fit into 1000, with 100 in reserve, though none runs yet."""
    asked = admission(FakeHost())

    assert count_admitted(asked) == 9
    assert asked.ask("d-9", int) == "memory: d; m"


def test_a_desktop_that_runs_counts_by_what_it_takes_and_may_still_take() -> None:
    fake = FakeHost()
    asked = admission(fake)
    fake.used[7] = 40 * MIB
    asked.ask("small", lambda: 7)

    assert asked.spare_bytes() == (1000 - 100 - 100) * MIB


def test_desktops_that_take_more_than_thought_leave_room_for_fewer() -> None:
    fake = FakeHost()
    fake.used[7] = 400 * MIB
    asked = admission(fake)
    asked.ask("large", lambda: 7)  # more of the kind are expected to take 500

    assert asked.ask("second", int).startswith("memory")
    assert admission(FakeHost(600 * MIB)).ask("second", int) == ""


def test_who_asks_again_holds_one_promise_and_who_is_released_holds_none() -> None:
    asked = admission(FakeHost(350 * MIB))

    assert [asked.ask("one", int) for _ in range(3)] == ["", "", ""]
    assert asked.ask("two", int) == ""
    assert asked.ask("three", int) != ""
    asked.release("one")
    asked.release("one")
    assert asked.ask("three", int) == ""
    assert asked.admitted() == ("two", "three")


def test_a_high_load_stops_at_as_many_desktops_as_processors() -> None:
    asked = admission(FakeHost(load=17.0))

    assert count_admitted(asked) == 2
    assert asked.ask("third", int).startswith("load: 17 on 2 processors, more than 8 each; ")


def test_any_other_limit_refuses_with_its_name_and_the_way_out() -> None:
    fake = FakeHost()
    fake.others = (
        Limit(name="fs.inotify.max_user_instances", free=3, wanted=5, detail="125 of 128 are used",
              mend="sysctl fs.inotify.max_user_instances=512"),
    )  # fmt: skip

    assert admission(fake).ask("one", int) == (
        "fs.inotify.max_user_instances: 125 of 128 are used; "
        "sysctl fs.inotify.max_user_instances=512"
    )


def test_memory_is_short_at_half_the_reserve_and_the_largest_goes_but_never_the_last() -> None:
    fake = FakeHost()
    asked = admission(fake)
    fake.used = {1: 10 * MIB, 2: 30 * MIB}
    asked.ask("small", lambda: 1)
    asked.ask("large", lambda: 2)
    assert not asked.is_pressed()

    fake.used[2] = 945 * MIB
    assert asked.is_pressed()
    assert asked.largest() == "large"
    asked.release("large")
    assert asked.largest() == ""


def test_the_limits_of_this_very_host_are_read_and_all_have_a_way_out() -> None:
    limits = {limit.name: limit for limit in read_limits(Need(), spare_bytes=available_bytes())}

    assert {
        "memory", "disk", "kernel.pid_max", "kernel.threads-max", "RLIMIT_NOFILE", "fs.file-max",
        "fs.inotify.max_user_instances", "fs.inotify.max_user_watches",
    } <= set(limits)  # fmt: skip
    assert all(limit.mend and limit.free != 0 for limit in limits.values())


def test_desktops_that_are_about_to_start_count_in_every_limit() -> None:
    before = read_limits(Need(), spare_bytes=1e9)
    after = read_limits(Need(instances=4), spare_bytes=1e9, promised=3)

    one, other = (
        next(limit for limit in limits if limit.name == "fs.inotify.max_user_instances")
        for limits in (before, after)
    )
    assert other.free <= one.free - 3 * 4 + 8  # others on this host come and go
    assert "by each of 3 that are about to start" in other.detail


def trees(room: Room, count: int, pid: Callable[[], int] = int) -> list[AdmittedTree]:
    async def idle(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep_forever()

    found = []
    for number in range(count):
        tree = AdmittedTree(f"d-{number}", [ChildSpec(name="idle", start=idle)])
        tree.room, tree.pid = room, pid
        found.append(tree)
    return found


async def until(claim: Callable[[], bool]) -> None:
    """Wait until it comes true; the test has a deadline."""
    is_true = claim()
    while not is_true:
        await trio.sleep(0.05)
        is_true = claim()


def states(health: Health) -> list[str]:
    return sorted(desktop.state for desktop in health.report().desktops)


async def test_of_24_desktops_those_that_fit_start_and_the_others_wait_say_why_and_come_later() -> (
    None
):
    fake, health = FakeHost(550 * MIB), Health()
    room = Room(admission(fake), health, 6)
    slots = trees(room, 6)
    with capture_logs() as logs, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for tree in slots:
                await nursery.start(tree.run)

            assert sum(tree.statistics()["up"] for tree in slots) == 4
            assert states(health) == ["waiting", "waiting"]
            (reason,) = health.report().degraded
            assert reason == "4 of 6 desktops run; no room for more: memory: d; m"

            fake.available = 1000 * MIB
            await until(lambda: sum(tree.statistics()["up"] for tree in slots) == 6)
            assert not health.report().degraded
            nursery.cancel_scope.cancel()

    told = [entry["event"] for entry in logs]
    assert told == ["desktop.refused"] * 2 + ["desktop.admitted"] * 2
    assert room.admission.admitted() == ()


async def test_when_memory_is_short_caches_go_first_and_then_the_largest_desktop_waits() -> None:
    fake, health = FakeHost(1000 * MIB), Health()
    room = Room(admission(fake), health, 2)
    emptied: list[str] = []

    def empty() -> bool:
        emptied.append("warm")
        return len(emptied) == 1

    room.caches = [empty]
    fake.used = {1: 10 * MIB, 2: 20 * MIB}
    small, large = (trees(room, 1)[0] for _ in range(2))
    small.name, small.pid = "small", lambda: 1
    large.name, large.pid = "large", lambda: 2
    with capture_logs() as logs, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(room.watch)
            for tree in (small, large):
                await nursery.start(tree.run)

            fake.used[2] = 950 * MIB
            await until(lambda: bool(emptied))
            assert large.statistics()["up"] == 1
            await until(lambda: room.admission.admitted() == ("small",))
            assert small.statistics()["up"] == 1
            fake.used[2] = 0
            await until(lambda: large.statistics()["up"] == 1)
            nursery.cancel_scope.cancel()

    told = [entry["event"] for entry in logs]
    assert told[:2] == ["cache.emptied", "desktop.stopped"]
    assert told[2] in ("desktop.refused",)


@pytest.mark.parametrize("idle", [10, 90])
def test_processors_are_idle_when_most_of_one_is_spare(idle: int) -> None:
    looks = iter(
        (
            "cpu 0 0 0 0 0 0 0 0\ncpu0\ncpu1\n",
            f"cpu {100 - idle} 0 0 {idle} 0 0 0 0\ncpu0\ncpu1\n",
        )
    )
    idleness = Idleness(lambda: next(looks))

    assert idleness.sample() is (idle == 90)
