"""A machine that runs OSWorld's server, driven over HTTP: a real one, and what else may answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.remote.address import Address
from envs_node.actors.desktop.remote.desktop import RemoteDesktop
from envs_node.actors.desktop.remote.machine import Machine, RevertCommand
from envs_node.messages.actions import Key, Type
from envs_node.messages.desktop import Observation
from tests.actors.desktop.looking import inside, wait_until
from tests.actors.desktop.machines import BridgedMachine
from tests.fakes_desktop import make_task, open_task

NOTES = open_task("mousepad", "/home/user/notes.txt", files={"notes.txt": b"milk\n"})


@pytest.fixture(scope="module")
def bridged(launcher: Launcher) -> Iterator[BridgedMachine]:
    """A machine, and how it is reverted."""
    bridged = BridgedMachine(launcher)
    yield bridged
    bridged.close()


@pytest.fixture
def desktop(bridged: BridgedMachine) -> Iterator[RemoteDesktop]:
    """A desktop on that machine."""
    machine = Machine(bridged.address, renews=RevertCommand(bridged.revert_command))
    desktop = RemoteDesktop(machine, width=1280, height=720)
    yield desktop
    desktop.close()


def test_a_machine_is_reverted_set_up_driven_and_looked_at(
    bridged: BridgedMachine, desktop: RemoteDesktop
) -> None:
    reverts = bridged.reverts

    start = desktop.reset(NOTES)
    typed = desktop.act(Type(text='<b>eggs & "ham"</b>\n'))
    desktop.act(Key(keys=("ctrl", "s")))
    saved = inside(bridged.sandbox, "/home/user/notes.txt").read_text()

    assert bridged.reverts == reverts + 1
    assert saved == '<b>eggs & "ham"</b>\nmilk\n'
    assert start.settled
    assert typed.settled
    assert [window.app_class for window in typed.windows] == ["mousepad Mousepad"]
    assert typed.signature.focus == typed.windows[0].title
    # On a busy host the server inside may give an application up before it has answered.
    assert wait_until(lambda: _texts(desktop.observe()) == ['<b>eggs & "ham"</b>\nmilk\n'], 60)
    assert start.signature.files != desktop.observe().signature.files
    with Image.open(BytesIO(desktop.frame_png(typed.signature.frame) or b"")) as picture:
        assert picture.size == (1280, 720)


def _texts(seen: Observation) -> list[str]:
    return [element.value for element in seen.elements if element.role == "text"]


def test_a_machine_that_nobody_can_revert_serves_one_episode(bridged: BridgedMachine) -> None:
    machine = Machine(bridged.address)
    first = RemoteDesktop(machine, width=1280, height=720)
    first.reset(make_task())
    first.close()

    again = RemoteDesktop(machine, width=1280, height=720)  # its actor has been started anew

    assert not again.can_reset
    with pytest.raises(LauncherError, match=r"desktop\.revert_command"):
        again.reset(make_task())


def test_a_machine_with_another_screen_is_refused_by_both_sizes(bridged: BridgedMachine) -> None:
    desktop = RemoteDesktop(Machine(bridged.address), width=1920, height=1080)

    with pytest.raises(LauncherError, match="is 1280x720, and 1920x1080 was asked for"):
        desktop.reset(make_task())


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("sh", "-c", "echo no such snapshot >&2; exit 3"), "ended with 3: no such snapshot"),
        (("sleep", "60"), "took more than 0.5 s"),
        (("/nonexistent/revert",), "cannot be run"),
    ],
)
def test_a_revert_that_fails_is_a_reset_that_fails(argv: tuple[str, ...], reason: str) -> None:
    machine = Machine(Address("127.0.0.1", 9), renews=RevertCommand(argv, timeout_s=0.5))

    with pytest.raises(LauncherError, match=reason):
        RemoteDesktop(machine, width=1280, height=720).reset(make_task())


def test_a_revert_that_leaves_a_program_behind_holds_nobody_up(tmp_path: Path) -> None:
    script = f"sleep 30 & echo $! {{host}} {{port}} {{machine}} > {tmp_path}/said"

    RevertCommand(("sh", "-c", script), timeout_s=5).renew(Address("::1", 5000))

    pid, *said = (tmp_path / "said").read_text().split()
    os.kill(int(pid), signal.SIGKILL)
    assert said == ["::1", "5000", "http://[::1]:5000"]


def test_a_machine_that_never_answers_is_told_of_at_the_deadline() -> None:
    machine = Machine(Address("127.0.0.1", 9), ready_timeout_s=0.6)

    with pytest.raises(LauncherError, match=r"127\.0\.0\.1:9 is not ready after 0\.6 s: .*refused"):
        RemoteDesktop(machine, width=1280, height=720).reset(make_task())
