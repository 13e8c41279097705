"""Desktops that are broken, cancelled, crowded or used before."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import trio

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.kind import DesktopKind, Limits
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.messages.actions import Type, Wait
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import Configure, Reset
from envs_node.policy.compare import compare
from tests.actors.desktop.looking import shell, wait_until
from tests.fakes_desktop import make_task, open_task

pytestmark = pytest.mark.live
D0 = DesktopId("d-0")
SMALL = DesktopKind(limits=Limits(disk_bytes=1 << 28))


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def inside(sandbox: Sandbox, program: str) -> list[int]:
    """The host's numbers of the processes of this name in a desktop."""
    space = os.readlink(f"/proc/{sandbox.guest_pid}/ns/pid")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == space:
                comm = Path(f"/proc/{name}/comm").read_text().strip()
                found += [int(name)] if comm == program else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize("program", ["Xvfb", "init"])
def test_an_action_on_a_desktop_that_lost_its_x_server_fails_soon(
    sandbox: Sandbox, program: str
) -> None:
    """Row D22."""
    sandbox.reset(open_task("xterm"))
    pid = sandbox.guest_pid if program == "init" else inside(sandbox, program)[0]

    os.kill(pid, signal.SIGKILL)
    began_s = time.monotonic()
    with pytest.raises(DesktopLostError):
        sandbox.act(Type(text="x"))

    assert time.monotonic() - began_s < 5
    assert sandbox.reset(open_task("xterm")).elements, "and a reset mends it"


def test_ended_applications_are_reaped_whoever_started_them(sandbox: Sandbox) -> None:
    """Row D5."""
    sandbox.reset(make_task())
    shell(sandbox, "for i in $(seq 50); do (setsid sh -c 'exit 0' &); done")

    def zombies() -> str:
        return shell(sandbox, "ps -e -o stat= | grep -c ^Z || true").strip()

    assert wait_until(lambda: zombies() in ("0", "")), f"{zombies()} zombies"


def draw(launcher: Launcher, count: int) -> None:
    """Start desktops at once, each with a mark of its own, and compare what each shows."""
    environment = dict(os.environ)
    sandboxes = [Sandbox(launcher, SMALL) for _ in range(count)]
    gate = threading.Barrier(count)

    def show(number: int) -> tuple[str, str]:
        gate.wait()
        seen = sandboxes[number].reset(open_task("xterm", "-title", f"mark {number}"))
        return seen.signature.frame, seen.signature.focus

    try:
        with ThreadPoolExecutor(count) as pool:
            shown = list(pool.map(show, range(count)))
        assert [focus for _, focus in shown if "mark" in focus] == [focus for _, focus in shown]
        assert all(f"mark {number}" in focus for number, (_, focus) in enumerate(shown))
        for number, sandbox in enumerate(sandboxes):
            assert [w.title for w in sandbox.windows() if w.title] == [f"mark {number}"]
        assert len({frame for frame, _ in shown}) == count, "each picture has its own mark"
        assert dict(os.environ) == environment
    finally:
        for sandbox in sandboxes:
            sandbox.close()


def test_six_desktops_started_at_once_each_show_their_own(launcher: Launcher) -> None:
    """Rows D10 and D11."""
    draw(launcher, 6)


@pytest.mark.slow
def test_sixty_four_desktops_started_at_once_each_show_their_own(launcher: Launcher) -> None:
    """Rows D10 and D11."""
    draw(launcher, 64)


def test_one_desktop_neither_notices_nor_waits_for_another(launcher: Launcher) -> None:
    """Row D25."""
    first, second = Sandbox(launcher), Sandbox(launcher)
    try:
        before = first.reset(open_task("xterm"))
        windows = [window.id for window in first.windows()]
        second.reset(open_task("xterm"))

        assert [window.id for window in first.windows()] == windows
        assert first.observe().signature == before.signature
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(second.act, Wait(wait_ms=3000))
            first.act(Type(text="x"))
            assert not slow.done(), "it did not wait for the other"
            slow.result()
    finally:
        first.close()
        second.close()


def test_an_episode_sees_nothing_of_the_one_before(sandbox: Sandbox) -> None:
    """Row D26."""
    task = open_task("mousepad", "/home/user/notes.txt", files={"notes.txt": b"a\n"})
    signatures = []
    for _ in range(2):
        signatures.append(sandbox.reset(task).signature)
        assert shell(sandbox, "ls -A /home/user /tmp").count("left") == 0
        assert shell(sandbox, "grep -rs Left ~/.config") == ""
        assert not inside(sandbox, "sleep")
        shell(
            sandbox,
            "echo x > ~/left; echo x > /tmp/left; gsettings set org.gnome.desktop.interface "
            "gtk-theme Left; (setsid sleep 600 > /dev/null 2>&1 &)",
        )
        assert wait_until(lambda: bool(inside(sandbox, "sleep")))

    assert compare(*signatures)[0] in ("equal", "masked")
    assert signatures[1].files == signatures[0].files


async def test_cancelled_while_a_desktop_is_made_it_leaves_none(launcher: Launcher) -> None:
    """Row E17: at twenty moments, from before the first process to after the last."""
    chance = Random(17)
    post = Post(RunId("r"))
    me, name = ActorName("t"), ActorName("desktop/d-0")
    others = set(children(launcher.pid))
    for _ in range(20):
        actor = DesktopActor(D0, Sandbox(launcher))
        with trio.move_on_after(chance.uniform(0, 0.3)):
            async with trio.open_nursery() as nursery:
                await nursery.start(run_actor, actor, name, post)
                ref = post.ref(name, sender=me)
                await ref.ask(Configure(desktop_id=D0, task=open_task("xterm")), timeout_s=30)
                await ref.ask(Reset(desktop_id=D0, episode=1), timeout_s=30)
                await trio.sleep_forever()

    def left() -> set[int]:
        return set(children(launcher.pid)) - others

    assert await trio.to_thread.run_sync(wait_until, lambda: not left(), 60.0), left()
