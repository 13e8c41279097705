"""Elements of every toolkit: what is listed lies where it is drawn, and a click there works."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Action, Click, Key, Type
from envs_node.messages.desktop import Element, Observation
from tests.actors.desktop.applications import APPLICATIONS
from tests.actors.desktop.looking import shell, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
BOXES = b"""
import sys, gi
gi.require_version("Gtk", sys.argv[1] + ".0")
from gi.repository import Gtk
def show(app):
    window = Gtk.ApplicationWindow(application=app, title="Boxes")
    window.set_default_size(400, 300)
    fixed, button = Gtk.Fixed(), Gtk.Button(label="Press")
    button.connect("clicked", lambda it: it.set_label("Done"))
    fixed.put(button, 40, 50)
    (window.add if sys.argv[1] == "3" else window.set_child)(fixed)
    (window.show_all if sys.argv[1] == "3" else window.present)()
app = Gtk.Application(application_id="org.envs.Boxes")
app.connect("activate", show)
app.run([])
"""
PAGE = b"""<title>Page</title><h1>Hello</h1>
<button onclick="this.textContent='Done'">Press</button><input placeholder="Your name">"""


def find(seen: Observation, name: str, *roles: str) -> Element:
    """The first element of this name."""
    found = [e for e in seen.elements if e.name == name and (not roles or e.role in roles)]
    assert found, f"no {name!r} among {[(e.role, e.name) for e in seen.elements]}"
    return found[0]


def middle(element: Element) -> Click:
    """A click into it."""
    return Click(x=element.x + element.width // 2, y=element.y + element.height // 2)


def move_window(sandbox: Sandbox, x: int, y: int) -> Observation:
    """Put the window at a place of the screen."""
    shell(sandbox, "wmctrl -r Boxes -b remove,maximized_vert,maximized_horz")
    shell(sandbox, f"wmctrl -r Boxes -e 10,{x},{y},400,300")  # 10: of its content, not its frame
    assert wait_until(lambda: any((w.x, w.y) == (x, y) for w in sandbox.windows()))
    return sandbox.observe()


@pytest.mark.parametrize("version", ["3", "4"])
def test_a_button_of_a_moved_window_is_listed_where_it_is(sandbox: Sandbox, version: str) -> None:
    """Row A9."""
    task = open_task("/usr/bin/python3", "boxes.py", version, files={"boxes.py": BOXES})
    sandbox.reset(task)

    button = find(move_window(sandbox, 300, 200), "Press", "push button")
    after = sandbox.act(middle(button))

    assert 340 <= button.x <= 360
    assert 250 <= button.y <= 265
    assert find(after, "Done", "push button")


def test_a_page_of_chromium_is_listed_and_can_be_used(sandbox: Sandbox) -> None:
    start = sandbox.reset(open_task("google-chrome", "/home/user/p.html", files={"p.html": PAGE}))

    pressed = sandbox.act(middle(find(start, "Press")))
    sandbox.act(middle(find(pressed, "Your name", "entry")))
    written = sandbox.act(Type(text="Ada"))

    assert find(start, "Hello", "heading")
    assert find(pressed, "Done", "push button")
    assert find(written, "Your name", "entry").value == "Ada"
    assert find(written, "Address and search bar", "entry")


def test_the_first_list_of_a_qt_application_holds_its_menus(sandbox: Sandbox) -> None:
    """Row D4."""
    first = sandbox.reset(open_task(*APPLICATIONS["vlc"].argv))

    opened = sandbox.act(middle(find(first, "Media")))

    assert len(first.elements) > 10
    assert (first.cuts, first.silent) == ((), ())
    assert find(first, "Help", "menu item")
    assert find(opened, "Quit", "menu item").y > find(first, "Media").y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "name", "listed", "leave"),
    [
        (APPLICATIONS["writer"].argv, "Insert", "Bookmark...", Key(keys=("esc",))),
        (APPLICATIONS["calc"].argv, "Sheet", "Insert Sheet...", Key(keys=("esc",))),
        (APPLICATIONS["impress"].argv, "Slide", "Slide Properties...", Key(keys=("esc",))),
        (APPLICATIONS["thunderbird"].argv, "Settings", "General", None),
        (("gnome-text-editor",), "New tab (Ctrl+T)", "New Document", None),
        (("mousepad",), "Search", "Find and Replace...", Key(keys=("esc",))),
        (("thunar",), "View", "Reload", Key(keys=("esc",))),
        (("galculator",), "View", "Scientific Mode", Key(keys=("esc",))),
    ],
)
def test_what_an_application_lists_is_opened_by_a_click(
    sandbox: Sandbox, argv: tuple[str, ...], name: str, listed: str, leave: Action | None
) -> None:
    start = sandbox.reset(open_task(*argv))

    opened = sandbox.act(middle(find(start, name)))

    assert start.silent == ()
    assert opened.signature.frame != start.signature.frame
    assert find(opened, listed)
    if leave is not None:
        assert listed not in {element.name for element in sandbox.act(leave).elements}
