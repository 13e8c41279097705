"""A run's door: its status, and nothing else, may be asked from outside, while it is on."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from envs_node.actors.base import Actor
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.deploy.door import NoDoorError, find_door, keep_door
from envs_node.deploy.membership import HEAD
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import RunStopped, StopRun
from envs_node.messages.status import Status, StatusWanted

STATUS = Status(head="h", version="1", run="r", nodes=())


class _Head(Actor[StatusWanted | StopRun]):
    def __init__(self) -> None:
        self.stopped: list[str] = []

    async def hear(self, message: StatusWanted | StopRun) -> Status | RunStopped:
        if isinstance(message, StatusWanted):
            return STATUS
        self.stopped.append(message.run)
        return RunStopped(run=message.run)


async def _opened(folder: Path) -> str:
    with trio.fail_after(10):
        while True:
            try:
                return find_door(folder)
            except NoDoorError:
                await trio.lowlevel.checkpoint()


async def test_a_run_on_a_long_way_down_can_be_looked_at_and_not_stopped(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 40) / "run"
    folder.mkdir(parents=True)
    post, outside, actor = Post(RunId("r")), Post(RunId("s")), _Head()
    on: list[Path] = [folder]
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, open_links() as links:
            await nursery.start(run_actor, actor, HEAD, post)
            await nursery.start(keep_door, post, lambda: on[0] if on else None)
            url = await _opened(folder)
            outside.add_route(HEAD, links.to(url))
            head = outside.ref(HEAD, sender=ActorName("client"))
            socket = Path(urlsplit(url).path)

            assert await head.ask(StatusWanted(), timeout_s=5) == STATUS
            with pytest.raises(ActorCrashedError):
                await head.ask(StopRun(run="r"), timeout_s=5)
            assert actor.stopped == []
            assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700

            on.clear()
            while (folder / "status.address").exists():
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    assert not socket.parent.exists()
    with pytest.raises(NoDoorError, match=r"no status\.address; while one is on"):
        find_door(folder)


async def test_a_run_whose_folder_takes_no_file_goes_on_without_a_door(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(keep_door, Post(RunId("r")), lambda: folder)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    with pytest.raises(NoDoorError, match="No such file"):
        find_door(folder)


@pytest.mark.parametrize("left", [b"ipc:///nowhere/status.sock", b"\xff\xfe", b"", b"tcp://1:2"])
def test_the_door_of_a_run_that_was_killed_is_told_of_at_once(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "status.address").write_bytes(left)

    with pytest.raises(NoDoorError, match="the process that was on there has died"):
        find_door(tmp_path)
