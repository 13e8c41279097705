"""Real desktops: reset, act and look, in every application of the bundled tasks."""

from __future__ import annotations

import os
import signal
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from envs_node.actors.desktop.errors import (
    ActionRefusedError,
    DesktopLostError,
    SetupFailedError,
)
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Action, Click, Drag, Key, Point, Scroll, Type
from envs_node.messages.desktop import Observation
from envs_node.policy.compare import compare
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import make_task, open_task

pytestmark = pytest.mark.live
NOTES = {"notes.txt": b"alpha\nbravo\n"}
OFFICE = ("soffice", "--norestore", "--nologo")
APPLICATIONS: dict[str, tuple[tuple[str, ...], Action, str]] = {
    "mousepad": (("mousepad", "/home/user/notes.txt"), Type(text="x"), "Mousepad"),
    "gedit": (("gedit", "/home/user/notes.txt"), Type(text="x"), "gedit"),
    "thunar": (("thunar", "/home/user"), Key(keys=("ctrl", "h")), "Thunar"),
    "xterm": (("xterm",), Type(text="ls\n"), "xterm"),
    "calc": ((*OFFICE, "--calc"), Type(text="7\n"), "LibreOffice Calc"),
    "writer": ((*OFFICE, "--writer"), Type(text="x"), "LibreOffice Writer"),
    "impress": ((*OFFICE, "--impress"), Click(x=534, y=260, count=2), "LibreOffice Impress"),
}


def names(seen: Observation, role: str) -> list[str]:
    return [element.name for element in seen.elements if element.role == role]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_two_fresh_desktops_take_the_same_action_to_the_same_state(
    sandbox: Sandbox, application: str
) -> None:
    argv, action, title = APPLICATIONS[application]

    starts, ends = [], []
    for _ in range(2):
        starts.append(sandbox.reset(open_task(*argv, files=NOTES)))
        ends.append(sandbox.act(action))

    assert title in starts[0].signature.focus
    assert len(starts[0].elements) > 1
    assert ends[0].signature.frame != starts[0].signature.frame
    assert (sandbox.frame_png(ends[1].signature.frame) or b"").startswith(b"\x89PNG")
    for first, second in (starts, ends):
        assert compare(first.signature, second.signature)[0] in ("equal", "masked")


def test_any_text_is_typed_exactly(sandbox: Sandbox) -> None:
    ascii_text = "".join(map(chr, range(0x20, 0x7F)))
    foreign = "Straße Žluťoučký Съешь 漢字かな 한글 😀 €\n" + "".join(map(chr, range(0x400, 0x450)))
    sandbox.reset(open_task("mousepad", "/home/user/notes.txt", files={"notes.txt": b""}))

    sandbox.act(Type(text=f"{ascii_text}\n\tTAB\n{foreign}"))
    sandbox.act(Key(keys=("ctrl", "s")))

    saved = inside(sandbox, "/home/user/notes.txt")
    expected = f"{ascii_text}\n\tTAB\n{foreign}"
    assert wait_until(lambda: saved.read_text().rstrip("\n") == expected), saved.read_text()


def test_a_menu_is_opened_by_a_click_and_its_items_are_listed(sandbox: Sandbox) -> None:
    seen = sandbox.reset(open_task("mousepad", "/home/user/notes.txt", files=NOTES))
    file = next(element for element in seen.elements if element.name == "File")

    seen = sandbox.act(Click(x=file.x + 5, y=file.y + 5))

    assert {"New", "Open...", "Quit"} <= set(names(seen, "menu item"))
    assert "Quit" not in names(sandbox.act(Key(keys=("esc",))), "menu item")


def test_a_drag_selects_and_a_scroll_moves_the_text(sandbox: Sandbox) -> None:
    lines = b"\n".join(b"line %d" % number for number in range(200))
    start = sandbox.reset(open_task("mousepad", "/home/user/a.txt", files={"a.txt": lines}))
    scrolled = sandbox.act(Scroll(x=600, y=400, dy=5))
    sandbox.act(Key(keys=("ctrl", "end")))
    sandbox.act(Key(keys=("ctrl", "home")))

    sandbox.act(Drag(path=(Point(3, 55), Point(900, 55))))
    sandbox.act(Key(keys=("delete",)))
    sandbox.act(Key(keys=("ctrl", "s")))

    assert scrolled.signature.frame != start.signature.frame
    saved = inside(sandbox, "/home/user/a.txt")
    assert wait_until(lambda: saved.read_bytes().startswith(b"\nline 1\n")), saved.read_bytes()[:40]


def test_a_refused_action_leaves_the_desktop_as_it_was(sandbox: Sandbox) -> None:
    seen = sandbox.reset(open_task("xterm"))

    with pytest.raises(ActionRefusedError, match="outside the screen of 1280x720"):
        sandbox.act(Click(x=5000, y=1))
    with pytest.raises(ActionRefusedError, match="no key is named 'hyper'"):
        sandbox.act(Key(keys=("ctrl", "hyper")))

    assert sandbox.act(Key(keys=("shift",))).signature.frame == seen.signature.frame


def test_a_desktop_sees_neither_the_host_nor_the_network_nor_another_desktop(
    launcher: Launcher, sandbox: Sandbox
) -> None:
    other = Sandbox(launcher)
    try:
        other.reset(open_task("xterm", files={"secret.txt": b"x"}))
        sandbox.reset(open_task("mousepad", "/home/user/notes.txt", files=NOTES))

        assert shell(sandbox, "ls /home/user").split() == ["notes.txt"]
        assert "xterm" not in shell(sandbox, "ps -e -o comm")
        assert "mousepad" in shell(sandbox, "ps -e -o comm")
        assert shell(sandbox, f"ls {Path(__file__).parent}").endswith("No such file or directory\n")
        assert shell(sandbox, "ip -o link | wc -l") == "1\n"
        assert shell(sandbox, "id -u; hostname; ls -A /root/ /opt").split()[:2] == [
            "1000",
            "desktop",
        ]
        assert "Permission denied" in shell(sandbox, "touch /usr/bin/x")
    finally:
        other.close()


def test_nothing_is_left_of_a_closed_desktop(launcher: Launcher) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    sandbox = Sandbox(launcher)
    sandbox.reset(open_task("xterm"))
    pid, inner = sandbox.guest_pid, pids_inside(sandbox.guest_pid)

    sandbox.close()

    assert len(inner) > 6
    assert not any(Path(f"/proc/{number}").exists() for number in (pid, *inner))
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert len(handles_of(launcher.pid)) == 5  # three streams, our channel, what CRIU found out


def test_nothing_is_left_when_the_launcher_is_killed() -> None:
    launcher = Launcher()
    sandbox = Sandbox(launcher)
    try:
        sandbox.reset(open_task("xterm"))
        inner = pids_inside(sandbox.guest_pid)

        os.kill(launcher.pid, signal.SIGKILL)

        assert wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in inner))
        with pytest.raises(DesktopLostError):
            sandbox.act(Type(text="x"))
        with pytest.raises(DesktopLostError):
            sandbox.close()
    finally:
        launcher.close()


def pids_inside(pid: int) -> list[int]:
    """Every process in the process namespace of this one, as the host counts."""
    space = os.readlink(f"/proc/{pid}/ns/pid")
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == space:
                found.append(int(name))
        except OSError:
            continue
    return found


def test_a_failed_set_up_step_is_named(sandbox: Sandbox) -> None:
    steps = ("execute", {"command": ["true"]}), ("command", {"command": ["sh", "-c", "exit 3"]})

    with pytest.raises(SetupFailedError, match=r"set-up step 1 \(command\): .* ended with 3"):
        sandbox.reset(make_task(*steps))


def test_set_up_steps_run_in_order_with_the_screen_size_filled_in(sandbox: Sandbox) -> None:
    script = "echo {SCREEN_WIDTH}x{SCREEN_HEIGHT_HALF} {CLIENT_PASSWORD} > /home/user/size.txt"

    seen = sandbox.reset(
        make_task(
            ("execute", {"command": script, "shell": True}),
            ("open", {"path": "/home/user/size.txt"}),
            ("launch", {"command": "xterm -title Shell", "shell": True}),
            ("activate_window", {"window_name": "size.txt"}),
            ("close_window", {"window_name": "Shell", "strict": True}),
        )
    )

    assert inside(sandbox, "/home/user/size.txt").read_text() == "1280x360 password\n"
    assert wait_until(lambda: len(sandbox.windows()) == 1)
    assert "size.txt" in seen.signature.focus


def test_the_frame_is_what_the_x_server_shows(sandbox: Sandbox) -> None:
    seen = sandbox.reset(open_task("gedit", "/home/user/notes.txt", files=NOTES))
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=20)

    ours = sandbox.frame_png(seen.signature.frame)

    assert ours is not None
    with (
        Image.open(BytesIO(ours)) as first,
        Image.open(BytesIO(guest.get("/screenshot"))) as second,
    ):
        assert first.tobytes() == second.tobytes()


def test_a_launcher_that_was_late_once_is_not_asked_again() -> None:
    """Its late answer would be taken for that of the next request: another desktop's pid, say."""
    with Launcher(answer_timeout_s=0.2) as launcher:
        os.kill(launcher.pid, signal.SIGSTOP)
        with pytest.raises(DesktopLostError, match="does not answer"):
            launcher.create(DesktopKind())
        os.kill(launcher.pid, signal.SIGCONT)

        with pytest.raises(DesktopLostError):
            launcher.create(DesktopKind())


@pytest.mark.parametrize(("number", "how"), [("KILL", "has ended"), ("STOP", "is stopped")])
def test_a_desktop_whose_window_manager_is_gone_is_lost_and_its_screen_no_evidence(
    sandbox: Sandbox, number: str, how: str
) -> None:
    sandbox.reset(open_task("xterm"))
    shell(sandbox, f"kill -{number} $(pidof openbox)")

    for _ in range(2):
        with pytest.raises(DesktopLostError, match=f"the desktop's wm {how}"):
            sandbox.act(Type(text="ls\n"))
    with pytest.raises(DesktopLostError, match=how):
        sandbox.observe()


@pytest.mark.skipif(os.geteuid() != 0, reason="where there are no forks, homes are no layer")
def test_the_writable_layer_is_reached_from_the_launchers_process_and_from_no_program(
    launcher: Launcher, sandbox: Sandbox
) -> None:
    sandbox.reset(open_task("xterm"))
    shell(sandbox, "echo kept > /home/user/kept.txt")

    stages = [path for path in handles_of(launcher.pid) if (path / "upper").is_dir()]

    assert [(path / "upper/home/user/kept.txt").read_text() for path in stages] == ["kept\n"]
    for pid in pids_inside(sandbox.guest_pid):
        assert not [path for path in handles_of(pid) if (path / "upper").is_dir()]


def handles_of(pid: int) -> list[Path]:
    """The open files of a process."""
    return list(Path(f"/proc/{pid}/fd").iterdir())
