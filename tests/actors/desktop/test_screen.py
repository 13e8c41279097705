"""The picture of a real X server, through memory that is shared with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from Xlib import X

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guest.xclient import XClient
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.screen import (
    Screen,
    frame_digest,
    pack_frame,
    png_of_frame,
)
from envs_node.actors.desktop.session import Session
from envs_node.actors.desktop.windows import require_drawn
from envs_node.actors.desktop.xserver import Window, XConnection
from tests.actors.desktop.looking import inside, numbers_inside, wait_until
from tests.fakes_desktop import make_task, open_task

pytestmark = pytest.mark.live
X_SOCKET = "/tmp/.X11-unix/X0"
WIDE = DesktopKind(width=1920, height=1080)


@pytest.fixture
def session(launcher: Launcher) -> Iterator[Session]:
    """A desktop without a task."""
    session = Session(launcher, DesktopKind())
    yield session
    session.close()


def fill(session: Session, colour: int) -> None:
    """Have the server fill a part of the screen, and say that it did."""
    root = session.connection.root
    pen = root.create_gc(foreground=colour, subwindow_mode=X.IncludeInferiors)
    root.fill_rectangle(pen, 10, 10, 300, 200)
    pen.free()
    session.connection.display.sync()


def server(session: Session) -> int:
    """The X server's process, as this host counts."""
    return numbers_inside(session.pid, "Xvfb")[0]


def resident_bytes() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_frame_is_what_the_server_answers(session: Session) -> None:
    session.spawn(["xterm", "-e", "sleep 100"], "xterm")
    assert wait_until(lambda: bool(session.connection.windows()))
    whole = (0, 0, session.width, session.height, X.ZPixmap, 0xFFFFFFFF)

    def claim() -> bool:
        theirs = session.connection.root.get_image(*whole).data
        return bool(theirs == session.screen.grab().tobytes())

    assert wait_until(claim)
    assert session.screen.grab().any()


def test_a_frame_holds_what_was_drawn_before_it_was_taken(session: Session) -> None:
    """Rows C1: never the picture from before the input."""
    for colour in range(0x102030, 0x102030 + 200):
        fill(session, colour)

        by_digest, pixels = session.screen.digest(), session.screen.grab()

        blue, green, red = (int(value) for value in pixels[100, 100, :3])
        assert (red << 16 | green << 8 | blue) == colour
        assert by_digest == frame_digest(pixels)


def test_a_screen_on_which_nothing_is_drawn_is_not_read_again(session: Session) -> None:
    fill(session, 0x808080)
    first = session.screen.digest()
    before = session.screen.grabs

    assert {session.screen.digest() for _ in range(50)} == {first}
    assert session.screen.grabs == before
    fill(session, 0x909090)
    assert session.screen.digest() != first
    assert session.screen.grabs == before + 1


def test_the_memory_of_frames_cannot_be_cut_off(session: Session) -> None:
    """A guest that could would kill every process that reads it."""
    client = XClient(str(session.path(X_SOCKET)))
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(client.memory, 4096)
    finally:
        client.close()


def test_a_screen_of_another_size_is_lost_and_both_sizes_are_named(session: Session) -> None:
    """Rows A8, C4 and C5."""
    path = session.path(X_SOCKET)

    with pytest.raises(DesktopLostError, match="is 1280x720, and 1366x768 was asked for"):
        Screen(path, 1366, 768)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_an_x_server_that_does_not_answer_is_lost_and_nobody_hangs(
    session: Session, number: signal.Signals
) -> None:
    asked: tuple[Callable[[], object], ...] = (
        session.screen.grab, session.screen.digest, session.connection.windows,
    )  # fmt: skip
    os.kill(server(session), number)

    began_s = time.monotonic()
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(work) for work in (asked[0], asked[2])]
        for future in futures:
            with pytest.raises(DesktopLostError):
                future.result(timeout=20)
    with pytest.raises(DesktopLostError):
        asked[1]()

    assert time.monotonic() - began_s < 12


def test_four_threads_share_one_connection(session: Session) -> None:
    """Row C7."""
    connection = session.connection

    def ask() -> int:
        return sum(1 for _ in range(800) if connection.root.get_geometry().width == session.width)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]

        assert [one.result(timeout=60) for one in asked] == [800] * 4


def test_five_thousand_frames_leave_no_memory_behind(launcher: Launcher) -> None:
    """Row C6."""
    session = Session(launcher, WIDE)
    try:
        digests = set()
        fill(session, 0)
        session.screen.grab()
        before = resident_bytes()
        for number in range(5000):
            if number % 100 == 0:
                fill(session, number)
            digests.add(frame_digest(session.screen.grab()))

        assert len(digests) == 50
        assert resident_bytes() - before < 50 << 20
    finally:
        session.close()


def test_a_busy_host_fails_no_frame_and_leaves_no_client(session: Session) -> None:
    """Row C8: 6,000 frames while two loops are busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    handles = Path(f"/proc/{server(session)}/fd")
    try:
        before = len(list(handles.iterdir()))
        for number in range(6000):
            fill(session, number) if number % 50 == 0 else None
            session.screen.digest() if number % 2 else session.screen.grab()

        assert len(list(handles.iterdir())) == before
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_detached_screen_leaves_nothing_with_the_server(session: Session) -> None:
    maps = Path(f"/proc/{server(session)}/maps")
    assert "memfd:frame" in maps.read_text()

    session.screen.detach()
    assert "memfd:frame" not in maps.read_text()
    with pytest.raises(DesktopLostError):
        session.screen.grab()

    screen = Screen(session.path(X_SOCKET), 1280, 720)
    assert screen.grab().shape == (720, 1280, 4)
    screen.close()
    assert wait_until(lambda: "memfd:frame" not in maps.read_text())


def test_a_closed_screen_leaves_no_memory_with_us(launcher: Launcher) -> None:
    def held() -> int:
        links = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
        return sum("memfd:frame" in link for link in links)

    session = Session(launcher, DesktopKind())
    before = held()
    pixels = session.screen.grab()
    session.close()

    assert before == 2, "ours, and that of the mapping"
    assert held() == 1, "whoever still reads a picture keeps it"
    del pixels
    assert held() == 0


@pytest.mark.slow
def test_five_thousand_pictures_leave_no_memory_behind() -> None:
    """Row C6, as files for the policy: PNG, and back from how frames are kept."""
    pixels = np.zeros((1080, 1920, 4), np.uint8)
    pixels[100:200, 100:900] = 200
    before = 0

    for number in range(5000):
        pixels[0, 0, 0] = number % 256
        assert png_of_frame(pack_frame(pixels), 1920, 1080)
        if number == 50:
            before = resident_bytes()

    assert resident_bytes() - before < 50 << 20


def test_a_black_picture_though_windows_are_open_is_no_observation(sandbox: Sandbox) -> None:
    """Row C4."""
    sandbox.reset(open_task("xterm", "-e", "sleep 100"))
    connection = XConnection(inside(sandbox, X_SOCKET), 5)
    pen = connection.root.create_gc(foreground=0, subwindow_mode=X.IncludeInferiors)
    connection.root.fill_rectangle(pen, 0, 0, 1280, 720)
    connection.display.sync()

    with pytest.raises(DesktopLostError, match="the picture is black, though 1 windows are open"):
        sandbox.observe()

    connection.close()
    assert sandbox.reset(make_task()).width == 1280, "an empty ground is black, and right"


@pytest.mark.parametrize(("width", "height", "is_lost"), [(1280, 700, True), (1280, 720, False)])
def test_a_black_window_over_the_whole_screen_may_be_right(
    width: int, height: int, is_lost: bool
) -> None:
    window = Window(
        id=1, title="Film", app_class="vlc", x=0, y=0, width=width, height=height, is_hidden=False
    )

    with pytest.raises(DesktopLostError) if is_lost else nullcontext():
        require_drawn(np.zeros((720, 1280, 4), np.uint8), [window])


def test_a_screen_that_shrinks_is_lost(session: Session) -> None:
    """Row C4: whoever is in the desktop may give its screen another size."""
    session.spawn(["xrandr", "--fb", "1000x700", "--output", "screen", "--off"], "xrandr")

    def is_lost() -> bool:
        try:
            session.screen.grab()
        except DesktopLostError as error:
            return "1000x700" in str(error)
        return False

    assert wait_until(is_lost)
