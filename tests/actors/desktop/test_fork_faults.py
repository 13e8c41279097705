"""A fork that goes wrong costs a replay, and nothing else: no desktop, no branch, no memory."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError
from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.fork.selftest import try_fork
from envs_node.actors.desktop.fork.store import ForkPoint, ForkStore
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.messages.actions import Type
from envs_node.messages.desktop import Observation
from tests.actors.desktop.forking import desktops, open_store
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
TASK = open_task("mousepad")
STEP = Type(text="kept")


@pytest.fixture
def store(launcher: Launcher) -> Iterator[ForkStore]:
    """Keeps the fork points of a test."""
    with open_store(launcher) as store:
        yield store


def kept(desktop: ForkableSandbox, store: ForkStore) -> ForkPoint:
    """The desktop, behind one step, and kept there."""
    seen: tuple[Observation, ...] = (desktop.reset(TASK), desktop.act(STEP))
    desktop.keep_fork(prefix_keys(TASK, (STEP,))[-1], seen)
    return store.points()[-1]


def keep_for_ever(
    desktop: ForkableSandbox, store: ForkStore, seen: tuple[Observation, ...]
) -> None:
    """Keep it and give it up again, until that fails."""
    while True:
        desktop.keep_fork(prefix_keys(TASK, (STEP,))[-1], seen)
        for point in store.points():
            store.forget(point)


def folder_of(launcher: Launcher) -> Path:
    """The only fork point, through the descriptor by which the launcher's process holds it."""
    for handle in Path(f"/proc/{launcher.pid}/fd").iterdir():
        if (handle / "images").is_dir():
            return handle
    raise AssertionError("there is no fork point")


def children_of(launcher: Launcher) -> set[str]:
    """The numbers of all that its process has to take in."""
    return set(Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split())


@pytest.mark.parametrize("harm", ["missing", "cut off"])
def test_a_damaged_image_gives_no_clone_and_the_branch_starts_afresh(
    launcher: Launcher, store: ForkStore, harm: str
) -> None:
    with desktops(launcher, store, 2) as (origin, clone):
        kept(origin, store)
        before = children_of(launcher)
        pages = max((folder_of(launcher) / "images").glob("pages-*.img"),
                    key=lambda path: path.stat().st_size)  # fmt: skip
        if harm == "missing":
            pages.unlink()
        else:
            os.truncate(pages, pages.stat().st_size // 2)

        assert clone.reset_forked(TASK, (STEP,)) is None

        assert store.points() == ()
        assert store.statistics()["failed"] == 1
        assert children_of(launcher) == before  # nor is a dead one left
        assert "Mousepad" in clone.reset(TASK).signature.focus
        assert origin.act(STEP).signature.focus.startswith("*")


def test_a_clone_that_shows_something_else_is_thrown_away(
    launcher: Launcher, store: ForkStore
) -> None:
    with desktops(launcher, store, 2) as (origin, clone):
        point = kept(origin, store)
        point.notes = type(point.notes)(
            parts=point.notes.parts, seen=point.notes.seen[:1], frames=point.notes.frames
        )

        assert clone.reset_forked(TASK, (STEP,)) is None

        assert clone.living_pid == 0
        assert store.points() == ()


def test_a_desktop_that_dies_while_it_is_kept_is_lost_and_no_other(
    launcher: Launcher, store: ForkStore
) -> None:
    with desktops(launcher, store, 2) as (origin, other):
        before = other.reset(TASK).signature
        seen = (origin.reset(TASK), origin.act(STEP))
        killer = threading.Timer(0.05, os.kill, (origin.guest_pid, signal.SIGKILL))
        killer.start()

        with pytest.raises((DesktopLostError, ForkRefusedError)):
            keep_for_ever(origin, store, seen)

        killer.join()
        assert other.observe().signature == before
        assert origin.reset(TASK).signature == before


def test_a_store_without_room_refuses_and_the_desktop_goes_on(launcher: Launcher) -> None:
    with (
        open_store(launcher, bytes_max=8 << 20) as store,
        desktops(launcher, store, 1) as (origin,),
    ):
        seen = (origin.reset(TASK), origin.act(STEP))

        with pytest.raises(ForkRefusedError, match="do not fit"):
            origin.keep_fork("key", seen)

        assert origin.act(STEP).signature.focus.startswith("*")


def test_the_try_at_a_nodes_start_says_whether_forks_work(
    launcher: Launcher, store: ForkStore, tmp_path: Path
) -> None:
    good = store._forking
    bad = Forker(launcher, (str(tmp_path / "none"),))

    tried = try_fork(launcher, DesktopKind(), good)
    failed = try_fork(launcher, DesktopKind(), bad)

    assert tried.reason == ""
    assert "none" in failed.reason
