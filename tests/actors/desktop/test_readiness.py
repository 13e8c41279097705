"""A launch is over when what it brings is there, whatever that is; never after a time."""

from __future__ import annotations

import time

import pytest
from structlog.testing import capture_logs

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.readiness import Launch
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.settle import Stillness, Work
from envs_node.actors.desktop.xserver import Window
from tests.actors.desktop.looking import shell
from tests.fakes_desktop import make_task

live = pytest.mark.live
SOCAT = ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"]


def launched(sandbox: Sandbox, *commands: object) -> list[str]:
    """How each launch came to its end."""
    steps = [
        ("launch", {"command": command, "shell": isinstance(command, str)}) for command in commands
    ]
    with capture_logs() as logs:
        sandbox.reset(make_task(*steps))
    return [log["how"] for log in logs if log["event"] == "program.launched"]


@live
def test_a_server_is_ready_without_a_window_and_it_is_said(sandbox: Sandbox) -> None:
    start = time.monotonic()

    assert launched(sandbox, SOCAT) == ["resting"]

    assert time.monotonic() - start < 15
    assert shell(sandbox, "pgrep -c socat") == "1\n"


@live
def test_a_program_that_ends_well_without_a_window_is_ready(sandbox: Sandbox) -> None:
    assert launched(sandbox, ["mkdir", "/home/user/made"]) == ["ended"]
    assert shell(sandbox, "ls /home/user") == "made\n"


@live
@pytest.mark.parametrize("command", ["exit 3", "sleep 0.3; exit 3"])
def test_a_program_that_fails_fails_the_set_up(sandbox: Sandbox, command: str) -> None:
    with pytest.raises(SetupFailedError, match=r"ended with 3 and opened no window"):
        launched(sandbox, command)


@live
def test_a_shell_that_starts_a_program_is_as_good_as_the_program(sandbox: Sandbox) -> None:
    assert launched(sandbox, "MODE=-1 xterm -title Inner", "xterm -title Second & wait") == [
        "window",
        "window",
    ]
    assert {window.title for window in sandbox.windows()} == {"Inner", "Second"}


@live
def test_a_program_that_is_slow_to_open_its_window_is_waited_for(sandbox: Sandbox) -> None:
    """Both work, in bursts, as a start does: one before it knows the X server, one after."""
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec xterm -title Late"

    assert launched(sandbox, busy) == ["window"]
    assert [window.title for window in sandbox.windows()] == ["Late"]


@live
def test_a_program_that_hands_over_to_a_running_one_is_ready_with_its_window(
    sandbox: Sandbox,
) -> None:
    assert launched(sandbox, ["mousepad"], ["mousepad", "-o", "window"]) == ["window", "window"]
    assert len(sandbox.windows()) == 2


class Splashed:
    """A desktop that shows a still splash screen, and then goes over to a window."""

    def __init__(self) -> None:
        self.looks = 0

    def windows(self) -> tuple[Window, ...]:
        """A splash screen at first, then a window beside it, then the window alone."""
        shape = {"x": 0, "y": 0, "width": 9, "height": 9, "is_hidden": False}
        splash = Window(id=1, title="", app_class="gimp Gimp", is_splash=True, **shape)
        window = Window(id=2, title="GIMP", app_class="gimp Gimp", **shape)
        return ((), (splash,), (splash, window), (window,))[min(3, (self.looks + 2) // 3)]

    def wait_still(self) -> Stillness:
        """Nothing moves."""
        self.looks += 1
        return Stillness(settled=True, settle_ms=100, frame="still")

    def work(self) -> Work:
        """Nothing works."""
        return 0.0, False

    def clients(self) -> int:
        """Nobody comes."""
        return 3


def test_a_splash_screen_is_no_window_of_an_application() -> None:
    desktop = Splashed()

    readiness = Launch(desktop).wait(lambda: None)

    assert readiness.how == "window"
    assert [window.title for window in desktop.windows()] == ["GIMP"]


class Visited(Splashed):
    """A desktop that somebody leaves, while the program comes whose window is long in coming."""

    def windows(self) -> tuple[Window, ...]:
        """None, for two seconds."""
        return super().windows() if self.looks > 40 else ()

    def wait_still(self) -> Stillness:
        """Nothing moves, and it takes time to see that."""
        time.sleep(0.05)
        return super().wait_still()

    def clients(self) -> int:
        """One of three leaves, and the program comes."""
        return (3, 2, 3)[min(2, self.looks)]


def test_a_program_that_knows_the_x_server_is_waited_for_though_another_one_has_left_it() -> None:
    readiness = Launch(Visited()).wait(lambda: None)

    assert readiness.how == "window"


@live
def test_the_work_of_programs_counts_though_they_have_ended(sandbox: Sandbox) -> None:
    sandbox.reset(make_task())
    before_ms, _ = sandbox.work()

    shell(sandbox, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true")

    assert sandbox.work()[0] - before_ms > 100


@live
@pytest.mark.slow
def test_chrome_and_the_relay_to_its_port_are_ready_as_osworlds_tasks_start_them(
    sandbox: Sandbox,
) -> None:
    chrome = ["google-chrome", "--remote-debugging-port=1337"]

    assert launched(sandbox, chrome, SOCAT) == ["window", "resting"]

    script = (
        "import urllib.request as u;"
        "print(u.urlopen('http://localhost:9222/json/version').read().decode())"
    )
    assert '"Browser": "Chrome/' in shell(sandbox, f'python3 -c "{script}"')
