"""A live desktop is kept as it is, and clones of it go on where it stood."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.launcher import Launcher
from envs_node.messages.actions import Action, Key, Type
from envs_node.messages.desktop import Observation
from tests.actors.desktop.forking import desktops, open_store
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.deploy.nodes import alive, descendants
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
TASK = open_task("mousepad", "/home/user/notes.txt", files={"notes.txt": b"alpha\nbravo\n"})
PREFIX: tuple[Action, ...] = (Type(text="one "), Key(keys=("ctrl", "end")), Type(text="жук 日本"))
AFTER: tuple[Action, ...] = (Type(text=" x日ß"), Key(keys=("ctrl", "a")), Key(keys=("ctrl", "s")))


@pytest.fixture
def store(launcher: Launcher) -> Iterator[ForkStore]:
    """Keeps the fork points of a test."""
    with open_store(launcher) as store:
        yield store


def drive(desktop: ForkableSandbox, actions: tuple[Action, ...]) -> tuple[Observation, ...]:
    """Reset it and act; what was seen at the start and after each action."""
    return (desktop.reset(TASK), *(desktop.act(action) for action in actions))


def keep(
    desktop: ForkableSandbox, actions: tuple[Action, ...], seen: tuple[Observation, ...]
) -> int:
    """Keep it behind these actions."""
    return desktop.keep_fork(prefix_keys(TASK, actions)[-1], seen)


def frames(desktop: ForkableSandbox, actions: tuple[Action, ...]) -> list[str]:
    """The pictures after each action."""
    return [desktop.act(action).signature.frame for action in actions]


def test_two_clones_act_like_the_desktop_they_come_from_and_apart_from_each_other(
    launcher: Launcher, store: ForkStore
) -> None:
    with desktops(launcher, store, 3) as (origin, first, second):
        seen = drive(origin, PREFIX)
        assert keep(origin, PREFIX, seen) > 10 << 20
        begun = [clone.reset_forked(TASK, (*PREFIX, *AFTER)) for clone in (first, second)]

        assert [clone.seen if clone else () for clone in begun] == [seen, seen]
        wanted = frames(origin, AFTER)
        assert frames(first, AFTER) == wanted
        (changed,) = frames(first, (Type(text="alone"),))
        assert frames(second, AFTER) == wanted
        assert inside(second, "/home/user/notes.txt").read_text() == (
            inside(origin, "/home/user/notes.txt").read_text()
        )
        assert second.observe().signature.frame != changed
        assert first.frame_png(seen[1].signature.frame), "what was seen on the way can be shown"
        pids = [pid for desktop in (origin, first, second) for pid in [desktop.guest_pid]]
        assert len({os.readlink(f"/proc/{pid}/ns/{kind}") for pid in pids
                    for kind in ("pid", "mnt", "net", "ipc", "uts")}) == 15  # fmt: skip


def test_the_inside_of_a_clone_answers_and_is_connected_to_nothing(
    launcher: Launcher, store: ForkStore
) -> None:
    with desktops(launcher, store, 2) as (origin, clone):
        seen = drive(origin, PREFIX[:1])
        keep(origin, PREFIX[:1], seen)
        assert clone.reset_forked(TASK, PREFIX[:1])

        serving = 'import socket; socket.create_server(("127.0.0.1", 0)); print(1)'
        assert shell(clone, f"hostname; python3 -c '{serving}'") == "desktop\n1\n"
        assert shell(clone, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
        started = Guest(inside(clone, SOCKET_PATH)).post("/setup/launch", {"command": ["xterm"]})
        assert started
        assert wait_until(lambda: len(clone.windows()) == 2)
        assert json.loads(Guest(inside(clone, SOCKET_PATH)).post("/execute", {"command": ["id"]}))
        assert len(origin.windows()) == 1


def test_a_clone_is_kept_and_cloned_in_its_turn(launcher: Launcher, store: ForkStore) -> None:
    with desktops(launcher, store, 3) as (origin, clone, grandchild):
        seen = drive(origin, PREFIX[:1])
        keep(origin, PREFIX[:1], seen)
        assert clone.reset_forked(TASK, PREFIX)
        seen = (*seen, *(clone.act(action) for action in PREFIX[1:]))
        keep(clone, PREFIX, seen)
        origin.close()
        clone.close()

        begun = grandchild.reset_forked(TASK, PREFIX)

        assert begun is not None
        assert begun.seen == seen
        assert grandchild.act(AFTER[0]).signature.focus.startswith("*")


def test_nothing_is_left_of_clones_once_they_and_their_points_are_gone(launcher: Launcher) -> None:
    before = descendants(launcher.pid)
    with open_store(launcher) as store, desktops(launcher, store, 2) as (origin, clone):
        keep(origin, PREFIX[:1], drive(origin, PREFIX[:1]))
        assert clone.reset_forked(TASK, PREFIX)
        held = len(os.listdir(f"/proc/{launcher.pid}/fd"))
        below = descendants(launcher.pid) - before
        assert len(below) > 12
        clone.close()
        origin.close()

    assert not alive(below)
    assert len(os.listdir(f"/proc/{launcher.pid}/fd")) == held - 3, "two stages and the point"
    assert descendants(launcher.pid) == before


def test_clones_die_with_the_process_that_made_them() -> None:
    with (
        Launcher() as launcher,
        open_store(launcher) as store,
        desktops(launcher, store, 2) as (origin, clone),
    ):
        keep(origin, PREFIX[:1], drive(origin, PREFIX[:1]))
        assert clone.reset_forked(TASK, PREFIX)
        below = descendants(launcher.pid)

        os.kill(launcher.pid, signal.SIGKILL)

        assert wait_until(lambda: not alive(below), 5)
        for desktop in (origin, clone):
            with pytest.raises(DesktopLostError):
                desktop.close()
