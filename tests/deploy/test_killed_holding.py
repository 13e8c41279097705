"""Who dies between down and up leaves nothing down: its desktop goes with it. Row B9."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import X_SOCKET
from envs_node.actors.desktop.xserver import XConnection
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import Act, Configure, Reset, ResetDone
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor
from tests.deploy.holding_process import ACTIONS
from tests.deploy.nodes import alive, descendants, wait_until
from tests.fakes_desktop import make_task

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
D0 = DesktopId("d0")
_BUTTONS = 0x1F00


@contextmanager
def watching(guest_pid: int) -> Iterator[Callable[[], bool]]:
    """Tells whether a key or a button is down in a desktop that somebody else drives."""
    connection = XConnection(Path(f"/proc/{guest_pid}/root{X_SOCKET}"), timeout_s=10)

    def is_held() -> bool:
        keys = connection.display.query_keymap()
        return any(keys) or bool(connection.root.query_pointer().mask & _BUTTONS)

    try:
        yield is_held
    finally:
        connection.close()


@pytest.mark.parametrize("held", ACTIONS)
def test_a_node_killed_between_down_and_up_takes_its_desktop_along(held: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.deploy.holding_process", held],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        guest_pid = int(process.stdout.readline())
        try:
            with watching(guest_pid) as is_held:
                wait_until(is_held, 20, f"a {held} that is down")
                below = descendants(process.pid)
                process.kill()
                wait_until(lambda: not alive(below), 5, f"the end of {len(below)} processes")
        finally:
            process.kill()

    assert guest_pid in below
    assert not Path(f"/proc/{guest_pid}/root{X_SOCKET}").exists()


def hang_up(sandbox: Sandbox) -> None:
    """Cut the connection that input goes through as soon as something is down."""
    with watching(sandbox.guest_pid) as is_held:
        wait_until(is_held, 20, "something that is down")
        sandbox._living().connection.display.display.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("held", ACTIONS)
async def test_a_desktop_whose_actor_crashes_between_down_and_up_is_not_used_again(
    held: str,
) -> None:
    made: list[Sandbox] = []
    crashes: list[str] = []
    is_back = trio.Event()
    post, name = Post(RunId("r")), ActorName("desktop/d0")

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        made.append(Sandbox(launcher))
        if crashes:
            is_back.set()
        await run_actor(DesktopActor(D0, made[-1]), name, post, task_status=task_status)

    async def begin(episode: int) -> int:
        await ask(Configure(desktop_id=D0, task=make_task()))
        assert isinstance(await ask(Reset(desktop_id=D0, episode=episode)), ResetDone)
        return made[-1].guest_pid

    child = ChildSpec(name="desktop", start=start)
    tree = Supervisor("slot", [child], publish=lambda told: crashes.append(told.error))
    ask = partial(post.ref(name, sender=ActorName("test")).ask, timeout_s=60)
    with Launcher() as launcher, trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            await nursery.start(tree.run)
            first = await begin(1)
            act = Act(desktop_id=D0, episode=1, step=0, action=ACTIONS[held])
            nursery.start_soon(trio.to_thread.run_sync, hang_up, made[0])
            with pytest.raises(ActorCrashedError, match="DesktopLostError"):
                await ask(act)
            await is_back.wait()
            second = await begin(2)
            with watching(second) as is_held:
                assert not is_held()
            tree.stop()

    assert len(crashes) == 1
    assert second != first
    assert not alive({first})
