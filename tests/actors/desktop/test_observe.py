"""What an observation holds, of real applications."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key
from tests.actors.desktop.looking import inside
from tests.actors.desktop.test_toolkits import find, middle
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
LATE = b"""
import gi
gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk

def clicked(button):
    with open("/home/user/clicks.txt", "a") as log:
        log.write("x")
    GLib.timeout_add(400, button.set_label, "Done")

window = Gtk.Window(title="Late")
button = Gtk.Button(label="Press")
button.connect("clicked", clicked)
window.add(button)
window.set_default_size(300, 200)
window.show_all()
Gtk.main()
"""


def test_what_an_unknown_application_repaints_late_is_seen_and_clicked_once(
    sandbox: Sandbox,
) -> None:
    """Row C1."""
    before = sandbox.reset(open_task("/usr/bin/python3", "late.py", files={"late.py": LATE}))

    after = sandbox.act(middle(find(before, "Press")))

    assert find(after, "Done").role == "push button"
    assert after.settled
    assert after.settle_ms > after.quiet_ms
    assert inside(sandbox, "/home/user/clicks.txt").read_text() == "x"


def test_a_frame_is_later_than_the_input_and_says_how_it_was_waited_for(sandbox: Sandbox) -> None:
    start = sandbox.reset(open_task("mousepad", "/home/user/a.txt", files={"a.txt": b"alpha"}))
    after = sandbox.act(Key(keys=("ctrl", "f")))

    assert (start.frame_id, start.input_ns) == (1, 0)
    assert after.frame_id == 2
    assert start.time_ns < after.input_ns < after.time_ns
    assert (after.quiet_class, after.quiet_ms) == ("mousepad", 100)
    assert (after.width, after.height) == (1280, 720)
    (window,) = after.windows
    assert window.title == after.signature.focus == "~/a.txt - Mousepad"
    assert (window.is_focused, window.is_hidden) == (True, False)
    assert window.width > 100
    assert (after.cuts, after.silent) == ((), ())


def test_the_first_frame_shows_the_window_of_the_task(sandbox: Sandbox) -> None:
    """Row C3."""
    seen = sandbox.reset(open_task("/usr/bin/python3", "late.py", files={"late.py": LATE}))

    assert [window.title for window in seen.windows] == ["Late"]
    assert seen.signature.focus == "Late"
    assert find(seen, "Press")
    assert seen.settled


def test_a_window_without_accessibility_is_called_silent(sandbox: Sandbox) -> None:
    seen = sandbox.reset(open_task("xterm", "-T", "Shell"))

    assert seen.silent == ("Shell",)
    assert {element.role for element in seen.elements} == {"frame", "terminal"}


def test_a_sheet_of_a_billion_cells_says_that_it_was_cut(sandbox: Sandbox) -> None:
    seen = sandbox.reset(open_task("soffice", "--norestore", "--nologo", "--calc"))

    assert "children" in seen.cuts
    assert find(seen, "A1", "table cell")
    assert seen.silent == ()
    assert seen.quiet_class in ("libreoffice", "soffice")
