"""A replay that is not what was recorded is always found out: by a picture, a window or a file."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Action, Key, Type
from envs_node.messages.desktop import Signature
from envs_node.policy.compare import compare
from tests.actors.desktop.looking import shell
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
HOME = "/home/user"
NOTE = b"alpha\nbravo\n"
STEPS: dict[str, tuple[Action, ...]] = {
    "xterm": (Type(text="echo one"), Key(keys=("backspace",)), Key(keys=("enter",))),
    "mousepad": (Type(text="one"), Key(keys=("backspace",)), Key(keys=("ctrl", "s"))),
}
"""In a terminal the picture alone tells; an editor has elements, too."""


def reach(sandbox: Sandbox, app: str, steps: tuple[Action, ...], note: bytes = NOTE) -> Signature:
    """Where these steps lead from a fresh start."""
    argv = (app, f"{HOME}/notes.txt") if app == "mousepad" else (app,)
    seen = sandbox.reset(open_task(*argv, files={"notes.txt": note}))
    for step in steps:
        seen = sandbox.act(step)
    return seen.signature


@pytest.mark.parametrize("app", STEPS)
def test_an_altered_action_a_dropped_key_and_an_altered_file_are_found_out(
    launcher: Launcher, app: str
) -> None:
    sandbox = Sandbox(launcher)
    first, second, last = STEPS[app]
    try:
        recorded = reach(sandbox, app, STEPS[app])
        again = reach(sandbox, app, STEPS[app])
        altered = reach(sandbox, app, (Type(text="echo ome"), second, last))
        elsewhere = reach(sandbox, app, (first, Key(keys=("home",)), last))
        dropped = reach(sandbox, app, (first, last))
        other_file = reach(sandbox, app, STEPS[app], NOTE.replace(b"b", b"B"))
    finally:
        sandbox.close()

    assert compare(recorded, again) == ("equal", "")
    for mutant in (altered, elsewhere, dropped, other_file):
        assert compare(recorded, mutant)[0] == "diverged"


def test_a_window_that_was_moved_or_made_larger_is_found_out(launcher: Launcher) -> None:
    places = ("60,50,500,400", "60,50,500,400", "61,50,500,400", "60,50,500,420")
    found = []
    sandbox = Sandbox(launcher)
    try:
        for place in places:
            sandbox.reset(open_task("mousepad"))
            shell(sandbox, "wmctrl -r :ACTIVE: -b remove,maximized_vert,maximized_horz")
            shell(sandbox, f"wmctrl -r :ACTIVE: -e 0,{place}")
            found.append(sandbox.observe().signature)
    finally:
        sandbox.close()

    recorded, again, moved, larger = found
    assert compare(recorded, again) == ("equal", "")
    for mutant in (moved, larger):
        assert compare(recorded, mutant)[1].startswith("the window 'Untitled 1 - Mousepad' is ")


def test_a_caret_elsewhere_is_another_state_though_nothing_else_tells(launcher: Launcher) -> None:
    sandbox = Sandbox(launcher)
    try:
        end = reach(sandbox, "xterm", STEPS["xterm"][:1])
        left = sandbox.act(Key(keys=("left",))).signature
    finally:
        sandbox.close()

    assert left.elements == end.elements
    assert compare(end, left) == ("diverged", "1 of 144 tiles of the picture differ")
