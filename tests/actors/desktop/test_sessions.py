"""Kinds of session and of X server, at many sizes of screen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.kind import DesktopKind, SessionName, XServerName
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import Session
from envs_node.messages.actions import Key, Move, Type
from tests.actors.desktop.looking import inside, numbers_inside, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
GNOME = DesktopKind(session="gnome")
NOTES = {"notes.txt": b"alpha\n"}


@pytest.fixture
def start(launcher: Launcher) -> Iterator[Callable[[DesktopKind], Session]]:
    """Starts desktops without a task, and closes them in the end."""
    sessions: list[Session] = []

    def start(kind: DesktopKind) -> Session:
        sessions.append(Session(launcher, kind))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def check_size(session: Session) -> None:
    """The frame has the size, and the pointer reaches its corners and its middle."""
    width, height = session.width, session.height
    assert session.screen.grab().shape == (height, width, 4)
    corners = [(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)]
    for x, y in (*corners, (width // 2, height // 2)):
        session.input.perform(Move(x=x, y=y))
        where = session.connection.root.query_pointer()
        assert (where.root_x, where.root_y) == (x, y)


@pytest.mark.parametrize(
    ("xserver", "width", "height"),
    [("xvfb", 320, 240), ("xvfb", 1366, 768), ("xorg", 1366, 768), ("xorg", 1440, 3040)],
)
def test_a_screen_has_the_size_it_was_asked_for(
    start: Callable[[DesktopKind], Session], xserver: XServerName, width: int, height: int
) -> None:
    """Row A8."""
    check_size(start(DesktopKind(width=width, height=height, xserver=xserver)))


@pytest.mark.slow
@pytest.mark.parametrize("xserver", ["xvfb", "xorg"])
@pytest.mark.parametrize(
    ("width", "height"),
    [(320, 240), (321, 241), (1023, 767), (1080, 1920), (1440, 3040), (1919, 1079), (1920, 1080),
     (2560, 1440), (3841, 2161), (7680, 4320)],
)  # fmt: skip
def test_screens_of_every_size_have_it(
    start: Callable[[DesktopKind], Session], xserver: XServerName, width: int, height: int
) -> None:
    """Row A8."""
    check_size(start(DesktopKind(width=width, height=height, xserver=xserver)))


@pytest.mark.parametrize(("width", "height"), [(0, 0), (319, 240), (1280, 4321), (-1, 720)])
def test_a_screen_of_no_size_is_refused_at_the_door(width: int, height: int) -> None:
    """Row C5."""
    with pytest.raises(ValueError, match=f"a screen of {width}x{height}"):
        DesktopKind(width=width, height=height)


def test_an_x_server_that_does_not_start_is_named_with_its_last_words(
    start: Callable[[DesktopKind], Session],
) -> None:
    """Rows C5 and K4: within 5 s, and no wait for what cannot come."""
    kind = DesktopKind()
    msgspec.structs.force_setattr(kind, "width", 0)

    began_s = time.monotonic()
    with pytest.raises(
        DesktopLostError, match=r"the desktop's xserver has ended: (?s:.*)Server aborting"
    ):
        start(kind)

    assert time.monotonic() - began_s < 5


def test_a_session_that_was_hung_up_on_is_taken_up_again(
    start: Callable[[DesktopKind], Session],
) -> None:
    session = start(DesktopKind())
    before = session.screen.grab().copy()
    server = numbers_inside(session.pid, "Xvfb")[0]
    clients = len(os.listdir(f"/proc/{server}/fd"))

    session.hang_up()

    assert "memfd:frame" not in Path(f"/proc/{server}/maps").read_text()
    assert wait_until(lambda: len(os.listdir(f"/proc/{server}/fd")) == clients - 2)
    session.take_up()
    assert (session.screen.grab() == before).all()
    assert len(os.listdir(f"/proc/{server}/fd")) == clients
    session.input.perform(Move(x=7, y=9))
    assert session.connection.root.query_pointer().root_x == 7


@pytest.mark.parametrize(
    ("session", "xserver"),
    [("openbox", "xorg"), ("gnome", "xvfb"), pytest.param("gnome", "xorg", marks=pytest.mark.slow)],
)
def test_an_application_is_used_in_it_and_nothing_is_left(
    launcher: Launcher, session: SessionName, xserver: XServerName
) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    sandbox = Sandbox(launcher, DesktopKind(session=session, xserver=xserver))
    try:
        seen = sandbox.reset(open_task("mousepad", "/home/user/notes.txt", files=NOTES))
        sandbox.act(Type(text="Grüße "))
        sandbox.act(Key(keys=("ctrl", "s")))
        pid = sandbox.guest_pid

        assert {"menu", "text"} <= {element.role for element in seen.elements}
        saved = inside(sandbox, "/home/user/notes.txt")
        assert wait_until(lambda: saved.read_text() == "Grüße alpha\n")
    finally:
        sandbox.close()
    assert not Path(f"/proc/{pid}").exists()
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.slow
def test_gnome_opens_on_its_windows_shows_its_panel_and_looks_the_same_twice(
    launcher: Launcher,
) -> None:
    sandbox = Sandbox(launcher, GNOME)
    frames = []
    try:
        for _ in range(2):
            seen = sandbox.reset(
                open_task("gnome-text-editor", "/home/user/notes.txt", files=NOTES)
            )
            typed = sandbox.act(Type(text="x"))
            frames.append((seen.signature.frame, typed.signature.frame))
        overview = sandbox.act(Key(keys=("super",)))
        names = {element.name for element in overview.elements}
        back = sandbox.act(Key(keys=("esc",)))
        went_on = sandbox.act(Type(text="y"))
    finally:
        sandbox.close()

    assert frames[0] == frames[1]
    assert "notes.txt" in seen.signature.focus
    assert {"Activities", "System"} <= {element.name for element in seen.elements}
    assert "Show Applications" in names
    assert "Show Applications" not in {element.name for element in back.elements}
    assert back.signature.windows == typed.signature.windows
    assert back.signature.focus == typed.signature.focus
    # GTK draws the caret again now and then at once, else with the next key.
    assert "xyalpha" in [element.value for element in went_on.elements]


def test_a_desktop_whose_gnome_shell_has_died_is_lost(launcher: Launcher) -> None:
    sandbox = Sandbox(launcher, GNOME)
    try:
        sandbox.reset(open_task("xterm"))
        os.kill(numbers_inside(sandbox.guest_pid, "gnome-shell")[0], signal.SIGKILL)

        with pytest.raises(DesktopLostError, match="the desktop's wm has ended"):
            sandbox.act(Type(text="x"))
    finally:
        sandbox.close()


@pytest.mark.parametrize("xserver", ["xvfb", "xorg"])
def test_an_x_server_never_blanks_its_screen(
    start: Callable[[DesktopKind], Session], xserver: XServerName
) -> None:
    """Row C9."""
    saver = start(DesktopKind(xserver=xserver)).connection.display.get_screen_saver()

    assert saver.timeout == 0
