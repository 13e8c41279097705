"""A desktop that starts unlike its peers is not used."""

from __future__ import annotations

import random

import pytest
from structlog.testing import capture_logs

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import Session
from envs_node.actors.desktop.starts import Starts
from tests.fakes_desktop import make_task, open_task

TASK = open_task("xterm")
NOTICE = ("Software updates are available", "xterm")


class Notified:
    """Fresh desktops; in one of them a notification comes up by itself, at some time."""

    def __init__(self, launcher: Launcher, number: int, delay_s: float) -> None:
        self._fresh = FreshSessions(launcher)
        self._number = number
        self._delay_s = delay_s
        self.taken = 0

    def take(self, kind: DesktopKind) -> Session:
        """One more."""
        session = self._fresh.take(kind)
        if self.taken == self._number:
            notice = f"sleep {self._delay_s}; exec xterm -title 'Software updates are available'"
            session.spawn(["sh", "-c", notice], "notice")
        self.taken += 1
        return session


@pytest.mark.live
def test_a_desktop_that_starts_with_a_notification_is_not_used(launcher: Launcher) -> None:
    """Row C10: one of eight, at a random time of its reset."""
    chance = random.Random(7)
    sessions = Notified(launcher, chance.randrange(1, 8), chance.uniform(0, 0.1))
    sandbox = Sandbox(launcher, sessions=sessions, starts=Starts())

    with capture_logs() as logs:
        seen = [sandbox.reset(TASK) for _ in range(8)]
    sandbox.close()

    assert {look.signature.windows for look in seen} == {("xterm",)}
    assert len({look.signature.frame for look in seen}) == 1
    assert sessions.taken == 9
    assert [log["event"] for log in logs if log["event"].startswith("start.")] == ["start.differed"]


def test_the_first_start_is_outvoted_by_two_that_agree() -> None:
    starts = Starts()

    assert starts.admits(TASK, NOTICE)
    assert not starts.admits(TASK, ("xterm",))
    starts.settle(TASK, ("xterm",), ("xterm",))

    assert starts.admits(TASK, ("xterm",))
    assert not starts.admits(TASK, NOTICE)


def test_a_task_that_never_starts_the_same_way_is_told_and_keeps_its_first_start() -> None:
    starts = Starts()
    starts.admits(TASK, ("a",))

    with capture_logs() as logs:
        starts.settle(TASK, ("b",), ("c",))

    assert [(log["event"], log["outvotes"]) for log in logs] == [("start.unsettled", False)]
    assert starts.admits(TASK, ("a",))


def test_each_task_has_a_start_of_its_own() -> None:
    starts = Starts()

    assert starts.admits(TASK, ("xterm",))
    assert starts.admits(make_task(("launch", {"command": ["gedit"]})), ("gedit",))
