"""A run is started on a head, watched to its end and stopped, over a real socket."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from envs_node import __version__
from envs_node.actors.head.actor import HeadActor, Runs
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import serve
from envs_node.deploy.conduct import (
    HeadLostError,
    RunLostError,
    RunNotStartedError,
    conduct_at,
    run_request,
)
from envs_node.deploy.membership import HEAD
from envs_node.messages.base import EnvsError, TaskId
from envs_node.messages.lifecycle import StartRun
from envs_node.messages.search import Progress
from envs_node.messages.tasks import TaskFile
from tests.deploy.fake_node import CONFIG, TASKS, FakeNode


def _raises(kind: type[EnvsError], match: str) -> pytest.RaisesGroup[EnvsError]:
    return pytest.RaisesGroup(pytest.RaisesExc(kind, match=match), flatten_subgroups=True)


@asynccontextmanager
async def _head(root: Path) -> AsyncIterator[str]:
    """A head that listens; gives its address."""
    node = FakeNode(root)
    async with node.open(), trio.open_nursery() as nursery:
        actor = HeadActor(node.runs, node="h", version=__version__)
        await nursery.start(run_actor, actor, HEAD, node.post)
        url = await nursery.start(serve, node.post.deliver, "tcp://127.0.0.1:0")
        yield url
        nursery.cancel_scope.cancel()


async def test_a_run_is_conducted_to_its_end_and_stopped(tmp_path: Path) -> None:
    seen: list[Progress] = []
    async with _head(tmp_path) as url:
        progress = await conduct_at(url, run_request("r-1", CONFIG, TASKS), seen.append)

        assert (tmp_path / "r-1" / "progress.json").is_file(), "it was not stopped"

    assert progress.is_over
    assert seen[-1] == progress
    assert [task.state for task in progress.tasks] == ["solved", "solved"]


async def test_a_refused_run_says_why(tmp_path: Path) -> None:
    async with _head(tmp_path) as url:
        await conduct_at(url, run_request("r-1", CONFIG, TASKS), lambda progress: None)

        reason = "r-1 exists; choose another with --run"
        with _raises(RunNotStartedError, reason):
            await conduct_at(url, run_request("r-1", CONFIG, TASKS), lambda progress: None)


async def test_tasks_that_cannot_be_sent_in_one_are_refused_with_the_way_out(
    tmp_path: Path,
) -> None:
    data = bytes(9000)
    file = TaskFile(name="files/a", data=data, sha256=hashlib.sha256(data).hexdigest())
    tasks = tuple(
        msgspec.structs.replace(TASKS[0], id=TaskId(f"t-{number}"), files=(file,))
        for number in range(2000)
    )

    with pytest.raises(RunNotStartedError, match=r"2000 tasks with their files are 18.* several"):
        await conduct_at("ipc:///nowhere", run_request("r-1", CONFIG, tasks), lambda progress: None)


async def test_a_run_that_was_begun_by_a_head_that_died_over_it_is_not_refused(
    tmp_path: Path,
) -> None:
    request = msgspec.structs.replace(run_request("r-1", CONFIG, TASKS), request_id="a")
    stranger = msgspec.structs.replace(request, request_id="b")
    for _ in range(2):
        node = FakeNode(tmp_path)  # the second is the head that was started in its place
        async with node.open():
            await node.runs.start(request)
            await node.runs.start(request)

            assert node.runs.path() == tmp_path / "r-1"
            with pytest.raises(EnvsError, match="the run r-1 is on"):
                await node.runs.start(stranger)
            await node.runs.stop("r-1")  # which lets go of its journal, as death does
    node = FakeNode(tmp_path)
    async with node.open():
        with pytest.raises(EnvsError, match="r-1 exists"):
            await node.runs.start(stranger)


async def test_a_conductor_that_is_cancelled_stops_its_run(tmp_path: Path) -> None:
    async with _head(tmp_path) as url:
        with trio.CancelScope() as scope:
            await conduct_at(
                url, run_request("r-1", CONFIG, TASKS), lambda progress: scope.cancel()
            )
        assert scope.cancelled_caught
        await conduct_at(url, run_request("r-2", CONFIG, TASKS), lambda progress: None)

    assert (tmp_path / "r-1" / "progress.json").is_file()


class _Announced:
    """The runs of a head; whoever waits hears when one is about to be started."""

    def __init__(self, runs: Runs, starting: trio.Event) -> None:
        self._runs = runs
        self._starting = starting
        self.stop = runs.stop
        self.standing = runs.standing

    async def start(self, request: StartRun) -> None:
        self._starting.set()
        await trio.testing.wait_all_tasks_blocked()  # the conductor has been cancelled by then
        await self._runs.start(request)


async def test_a_conductor_that_is_cancelled_while_its_run_begins_stops_it(
    tmp_path: Path,
) -> None:
    starting = trio.Event()
    node = FakeNode(tmp_path)
    async with node.open(), trio.open_nursery() as nursery:
        actor = HeadActor(_Announced(node.runs, starting), node="h", version=__version__)
        await nursery.start(run_actor, actor, HEAD, node.post)
        url = await nursery.start(serve, node.post.deliver, "tcp://127.0.0.1:0")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as conducting:

                async def interrupt() -> None:
                    await starting.wait()
                    scope.cancel()

                conducting.start_soon(interrupt)
                await conduct_at(url, run_request("r-1", CONFIG, TASKS), lambda progress: None)

        assert scope.cancelled_caught
        assert node.runs.path() is None
        nursery.cancel_scope.cancel()
    assert (tmp_path / "r-1" / "progress.json").is_file()


async def test_the_run_that_a_restarted_head_has_on_is_not_taken_for_ours(tmp_path: Path) -> None:
    seen: list[Progress] = []
    node = FakeNode(tmp_path)
    async with node.open(), trio.open_nursery() as nursery:
        actor = HeadActor(node.runs, node="h", version=__version__)
        await nursery.start(run_actor, actor, HEAD, node.post)
        url = await nursery.start(serve, node.post.deliver, "tcp://127.0.0.1:0")

        async def conduct_another(progress: Progress) -> None:
            await node.runs.stop("r-1")
            await node.runs.start(run_request("r-2", CONFIG, TASKS))

        def watch(progress: Progress) -> None:
            if not seen:
                nursery.start_soon(conduct_another, progress)
            seen.append(progress)

        with trio.fail_after(30), _raises(RunLostError, "lost the run r-1: .*--resume r-1"):
            await conduct_at(url, run_request("r-1", CONFIG, TASKS), watch)
        nursery.cancel_scope.cancel()

    assert {progress.run for progress in seen} == {"r-1"}


@pytest.mark.slow
async def test_where_no_head_is_the_way_out_is_named() -> None:
    with trio.fail_after(60):
        with _raises(HeadLostError, "no head answers: .*`envs-node start --role head`"):
            await conduct_at(
                "tcp://127.0.0.1:9", run_request("r-1", CONFIG, TASKS), lambda progress: None
            )
