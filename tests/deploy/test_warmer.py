"""A place is filled when the host is idle and has room, watched while it is full, and emptied."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions, Pool
from envs_node.deploy.admission import Admission
from envs_node.deploy.admitted import Room, Warmer
from envs_node.deploy.health import Health
from envs_node.deploy.idleness import Idleness

pytestmark = pytest.mark.live
KIND = DesktopKind()


class Processors:
    """Says what /proc/stat would, of two processors that are idle or not."""

    def __init__(self) -> None:
        self.is_idle, self._idle, self._busy = True, 0, 0

    def read(self) -> str:
        self._idle += 100 * self.is_idle
        self._busy += 100 * (not self.is_idle)
        return f"cpu {self._busy} 0 0 {self._idle} 0 0 0 0\ncpu0\ncpu1\n"


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@asynccontextmanager
async def warming(
    launcher: Launcher, processors: Processors, *, reserve_bytes: int = 0
) -> AsyncIterator[tuple[Pool, Room]]:
    pool = Pool(FreshSessions(launcher), places=1)
    room = Room(Admission(reserve_bytes=reserve_bytes, load_cpu_max=10_000), Health(), 1)
    warmer = Warmer("warm", pool.places[0], pool, KIND, room, idleness=Idleness(processors.read))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(warmer.run)
            yield pool, room
            nursery.cancel_scope.cancel()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until(claim: Callable[[], bool]) -> None:
    is_true = claim()
    while not is_true:
        await trio.sleep(0.02)
        is_true = claim()


async def test_a_place_is_filled_again_after_its_desktop_was_taken_and_emptied_in_the_end(
    launcher: Launcher,
) -> None:
    async with warming(launcher, Processors()) as (pool, room):
        (place,) = pool.places
        await until(lambda: place.pid != 0)
        first = place.pid
        assert room.admission.admitted() == ("warm",)

        session = pool.take(KIND)
        await until(lambda: place.pid not in (0, first))
        second = place.pid
        session.close()

    assert session.pid == first
    assert not is_running(second)
    assert room.admission.admitted() == ()
    assert pool.statistics() == {"ready": 1, "fresh": 0}


async def test_a_desktop_that_dies_while_it_stands_ready_is_told_of_and_replaced(
    launcher: Launcher,
) -> None:
    with capture_logs() as logs:
        async with warming(launcher, Processors()) as (pool, _):
            (place,) = pool.places
            await until(lambda: place.pid != 0)
            first = place.pid
            os.kill(first, signal.SIGKILL)
            await until(lambda: place.pid not in (0, first))

    (told,) = (entry for entry in logs if entry["event"] == "desktop.discarded")
    assert "has ended" in told["reason"]


async def test_nothing_is_warmed_while_the_processors_are_busy(launcher: Launcher) -> None:
    processors = Processors()
    processors.is_idle = False
    async with warming(launcher, processors) as (pool, room):
        await trio.sleep(0.5)  # five looks
        assert pool.places[0].pid == 0
        assert room.admission.admitted() == ()

        processors.is_idle = True
        await until(lambda: pool.places[0].pid != 0)


async def test_nothing_is_warmed_where_the_host_has_no_room(launcher: Launcher) -> None:
    async with warming(launcher, Processors(), reserve_bytes=1 << 50) as (pool, room):
        await trio.sleep(0.5)  # five looks
        assert pool.places[0].pid == 0
        assert room.admission.admitted() == ()
