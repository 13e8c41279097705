"""A desktop that nobody uses shows what it showed, however long."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Move
from tests.actors.desktop.applications import APPLICATIONS
from tests.actors.desktop.looking import shell
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
IDLE_S = 60.0


def test_a_screen_whose_saver_and_power_saving_are_forced_on_is_not_black(
    sandbox: Sandbox,
) -> None:
    """Row C9."""
    start = sandbox.reset(open_task("xterm"))

    said = shell(sandbox, "xset s activate; xset dpms force off 2>&1; xset q")
    seen = sandbox.observe()

    assert "timeout:  0" in said
    assert seen.signature.frame == start.signature.frame
    assert sandbox.act(Move(x=5, y=5)).signature.frame == start.signature.frame


@pytest.mark.slow
def test_idle_desktops_show_what_they_showed(launcher: Launcher) -> None:
    """Row C9: late windows, clocks, carets, spinners and updates would be seen."""
    with ExitStack() as stack:
        starts = {}
        for name, application in APPLICATIONS.items():
            sandbox = stack.enter_context(closing(Sandbox(launcher)))
            starts[name] = sandbox, sandbox.reset(open_task(*application.argv))

        changed, end = set(), time.monotonic() + IDLE_S
        while time.monotonic() < end:  # this test is about time that passes
            for name, (sandbox, start) in starts.items():
                if sandbox.observe().signature.frame != start.signature.frame:
                    changed.add(name)

        assert changed == set()
        for sandbox, start in starts.values():
            assert sandbox.observe().signature.windows == start.signature.windows
