"""A reset takes a desktop that runs already, once, and never one that has lost a part."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions, Pool
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import Session
from envs_node.messages.actions import Type
from envs_node.policy.compare import compare
from tests.actors.desktop.looking import inside, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
KIND = DesktopKind()
NOTES = {"notes.txt": b"alpha\n"}


@pytest.fixture
def pool(launcher: Launcher) -> Iterator[Pool]:
    pool = Pool(FreshSessions(launcher), places=1)
    yield pool
    for place in pool.places:
        place.close()


@pytest.fixture
def pooled(launcher: Launcher, pool: Pool) -> Iterator[Sandbox]:
    sandbox = Sandbox(launcher, KIND, sessions=pool)
    yield sandbox
    sandbox.close()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def part_pid(session: int, name: str) -> int:
    """A process of a desktop, as this host counts."""
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text()
        if f"Name:\t{name}\n" in text and os.readlink(
            f"/proc/{status.parent.name}/ns/pid"
        ) == os.readlink(f"/proc/{session}/ns/pid"):
            return int(status.parent.name)
    raise AssertionError(f"no {name} in desktop {session}")


def test_a_reset_takes_the_desktop_that_stands_ready_and_starts_none(
    pool: Pool, pooled: Sandbox
) -> None:
    (place,) = pool.places
    place.fill(pool.fresh, KIND)
    ready = place.pid

    pooled.reset(open_task("xterm"))

    assert pooled.guest_pid == ready
    assert place.pid == 0
    assert pool.statistics() == {"ready": 1, "fresh": 0}


def test_a_taken_desktop_is_ready_at_once(pool: Pool) -> None:
    (place,) = pool.places
    times_ms = []
    for _ in range(5):
        place.fill(pool.fresh, KIND)
        start = time.perf_counter()
        session = pool.take(KIND)
        times_ms.append((time.perf_counter() - start) * 1000)
        session.close()

    assert min(times_ms) < 5, times_ms


def test_a_desktop_is_used_for_one_episode_and_destroyed(pool: Pool, pooled: Sandbox) -> None:
    pool.places[0].fill(pool.fresh, KIND)
    pooled.reset(open_task("mousepad", "/home/user/notes.txt", files=NOTES))
    pooled.act(Type(text="mark"))
    first = pooled.guest_pid

    pooled.reset(open_task("xterm"))

    assert pooled.guest_pid != first
    assert not is_running(first)
    assert not inside(pooled, "/home/user/notes.txt").exists()
    assert pool.statistics() == {"ready": 1, "fresh": 1}


def test_what_was_warmed_for_long_looks_and_acts_like_what_was_started_now(
    pool: Pool, pooled: Sandbox
) -> None:
    task = open_task("mousepad", "/home/user/notes.txt", files=NOTES)
    fresh = [pooled.reset(task), pooled.act(Type(text="x"))]
    pool.places[0].fill(pool.fresh, KIND)
    pooled.reset(open_task("xterm"))
    pool.places[0].fill(pool.fresh, KIND)
    time.sleep(1)  # not for anything to happen: for it to have stood there

    ready = [pooled.reset(task), pooled.act(Type(text="x"))]

    assert pool.statistics()["ready"] == 2
    for one, other in zip(fresh, ready, strict=True):
        assert compare(one.signature, other.signature)[0] == "equal"


@pytest.mark.parametrize("part", ["Xvfb", "openbox", "dbus-daemon", ""])
def test_a_desktop_that_lost_a_part_while_it_stood_ready_is_thrown_away_before_use(
    pool: Pool, pooled: Sandbox, part: str
) -> None:
    (place,) = pool.places
    place.fill(pool.fresh, KIND)
    broken = place.pid
    victim = part_pid(broken, part) if part else broken
    os.kill(victim, signal.SIGKILL)
    assert wait_until(lambda: not is_running(victim) or _is_dead(victim))

    pooled.reset(open_task("xterm"))

    assert pooled.guest_pid != broken
    assert not is_running(broken)
    assert pool.statistics() == {"ready": 0, "fresh": 1}


def test_a_place_notices_by_itself_that_its_desktop_has_died(pool: Pool) -> None:
    (place,) = pool.places
    place.fill(pool.fresh, KIND)
    assert place.look() == ""
    os.kill(part_pid(place.pid, "Xvfb"), signal.SIGKILL)

    said: list[str] = []
    assert wait_until(lambda: bool(said.append(place.look()) or said[-1]))

    assert said[-1].endswith("has ended")
    assert place.pid == 0


def test_a_desktop_of_another_kind_is_not_given_and_stays(pool: Pool) -> None:
    (place,) = pool.places
    place.fill(pool.fresh, KIND)
    ready = place.pid
    small = DesktopKind(width=800, height=600)

    session = pool.take(small)
    size = (session.width, session.height)
    session.close()

    assert size == (800, 600)
    assert place.pid == ready


def test_a_place_that_was_closed_while_its_desktop_started_keeps_none(
    launcher: Launcher, pool: Pool
) -> None:
    (place,) = pool.places
    started: list[Session] = []

    class Slow:
        def take(self, kind: DesktopKind) -> Session:
            session = FreshSessions(launcher).take(kind)
            started.append(session)
            place.close()
            return session

    place.fill(Slow(), KIND)

    assert place.pid == 0
    assert not is_running(started[0].pid)


def test_two_resets_at_once_never_get_the_same_desktop(pool: Pool) -> None:
    pool.places[0].fill(pool.fresh, KIND)
    taken: list[Session] = []
    threads = [threading.Thread(target=lambda: taken.append(pool.take(KIND))) for _ in range(3)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pids = {session.pid for session in taken}
    for session in taken:
        session.close()

    assert len(pids) == 3
    assert pool.statistics() == {"ready": 1, "fresh": 2}


def test_no_more_desktops_start_at_once_than_the_limit() -> None:
    class Held:
        """A host on which starts take until all who may have come."""

        def __init__(self) -> None:
            self.guard, self.now, self.most = threading.Lock(), 0, 0
            self.gate = threading.Semaphore(0)

        def start(self, *_what: object) -> int:
            with self.guard:
                self.now += 1
                self.most = max(self.most, self.now)
            self.gate.acquire(timeout=10)
            with self.guard:
                self.now -= 1
            raise LauncherError("held")

    held = Held()
    fresh = FreshSessions(held, starts_max=2)  # type: ignore[arg-type]  # nothing is started

    def start_one() -> None:
        with pytest.raises(LauncherError):
            fresh.take(KIND)

    threads = [threading.Thread(target=start_one) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: held.now == 2)
    held.gate.release(5)
    for thread in threads:
        thread.join()

    assert held.most == 2


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
