"""What deciding actors heard is kept, thinned, and enough to go on with a run that was stopped."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import msgspec
import pytest
import trio

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.post import Post
from envs_node.deploy.conduct import run_request
from envs_node.deploy.config import Config
from envs_node.deploy.head import RunRefusedError
from envs_node.deploy.journals import is_journalled, open_recorder, thin
from envs_node.deploy.parts import PROPOSER, HeadParts
from envs_node.deploy.replay import ReplayError, replay_run
from envs_node.deploy.run_folder import RunChangedError, RunFolder, RunFolderError
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import Configure
from envs_node.messages.journal import JournalError, JournalWriter, read_journal, read_live
from envs_node.messages.lifecycle import StartRun
from envs_node.messages.propose import Propose, State
from envs_node.messages.search import Assign, LeafReached, Progress, ProgressWanted
from envs_node.messages.tasks import TaskFile
from envs_node.messages.verify import Verify
from envs_node.policy.branches import Branch
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable
from tests.deploy.fake_node import CONFIG, SETTINGS, TASKS, FakeNode
from tests.fakes import fake_task, note_screen

GOLD = TaskFile(name="gold/a", sha256="0" * 64, data=b"gold" * 1000)
TASK = msgspec.structs.replace(fake_task(), files=(GOLD,))


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("search/note-000", True),
        ("replay/d-0", True),
        ("ledger", False),
        ("scheduler", False),
        ("desktop/d-0", False),
        ("proposer", False),
    ],
)
def test_those_that_decide_are_journalled(name: str, is_kept: bool) -> None:
    assert is_journalled(ActorName(name)) == is_kept


def test_files_of_a_task_are_left_out_and_its_name_is_kept() -> None:
    configure = thin(Configure(desktop_id=DesktopId("d"), task=TASK))
    verify = thin(Verify(verify_id="v", task=TASK, guest_pid=1, last_action="DONE"))

    assert isinstance(configure, Configure)
    assert isinstance(verify, Verify)
    for task in (configure.task, verify.task):
        assert (task.id, task.sha256, task.files, task.json) == (TASK.id, TASK.sha256, (), b"")


def test_what_a_policy_saw_is_kept_by_its_signature() -> None:
    observation = msgspec.structs.replace(note_screen().observe("typed"), frame=b"pixels")
    asked = Propose(
        state=State(instruction="do", observation=observation), samples=8, temperature=1.0, seed=1
    )

    kept = thin(asked)

    assert isinstance(kept, Propose)
    assert kept.state.observation.signature == observation.signature
    assert (kept.state.observation.frame, kept.state.observation.elements) == (b"", ())
    assert thin(kept) == kept


async def test_a_run_that_was_stopped_goes_on_to_its_end(tmp_path: Path) -> None:
    brief = Config(search=msgspec.structs.replace(SETTINGS, lease_ms=1000))
    node = FakeNode(tmp_path, config=brief)
    async with node.open():
        await node.start("r-1")
        await node.watch(lambda progress: any(task.verified for task in progress.tasks))
        await node.runs.stop("r-1")
    again = FakeNode(tmp_path, config=brief)
    async with again.open():
        await again.start("r-1", is_resumed=True)
        progress, folder = await again.finish("r-1")

    assert [task.state for task in progress.tasks] == ["solved", "solved"]
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        kept = store.trajectories(certified_only=True)
    assert len({(found.task_id, found.path) for found in kept}) == len(kept) >= 4
    assert sum(task.distinct for task in progress.tasks) == len(kept)
    lent = [
        (e.actor, e.envelope.message.lease)
        for e in read_journal(folder.journal)
        if e.kind == "answered" and e.envelope and isinstance(e.envelope.message, Assign)
    ]
    assert len(set(lent)) == len(lent), "a fencing number was given out twice"
    report = await replay_run(folder)
    assert report.differences == ()


async def test_time_does_not_go_back_over_a_restart_though_the_wall_clock_was_set_back(
    tmp_path: Path,
) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        await node.watch(lambda progress: any(task.verified for task in progress.tasks))
        await node.runs.stop("r-1")
    again = FakeNode(tmp_path, clock_ns=lambda: time.time_ns() - 3600 * 10**9)
    async with again.open():
        await again.start("r-1", is_resumed=True)
        _, folder = await again.finish("r-1")

    for task in TASKS:
        times = [
            e.envelope.time_ns
            for e in read_journal(folder.journal)
            if (e.actor, e.kind) == (f"search/{task.id}", "heard") and e.envelope
        ]
        assert len(times) > 10
        assert times == sorted(times)
    assert (await replay_run(folder)).differences == ()


async def test_a_second_run_is_refused_while_one_is_on(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        with pytest.raises(RunRefusedError, match="the run r-1 is on; wait"):
            await node.start("r-2")
        await node.finish("r-1")

        with pytest.raises(RunFolderError, match="r-1 exists; choose another with --run"):
            await node.start("r-1")
        await node.start("r-2")
        _, folder = await node.finish("r-2")

    assert folder.run == "r-2"
    assert not (tmp_path / "r-3").exists()


async def test_a_run_that_never_was_cannot_be_resumed(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        with pytest.raises(RunFolderError, match="is no run: it has no manifest"):
            await node.start("r-9", is_resumed=True)
        await node.start("r-1")
        await node.finish("r-1")

    assert not (tmp_path / "r-9").exists()


async def test_a_run_that_is_under_way_elsewhere_is_not_resumed(tmp_path: Path) -> None:
    node, other = FakeNode(tmp_path), FakeNode(tmp_path)
    async with node.open(), other.open():
        await node.start("r-1")
        began = (tmp_path / "r-1" / "manifest.json").read_bytes()
        settings = msgspec.structs.replace(CONFIG.search, steps_max=99)
        request = run_request("r-1", CONFIG, (), is_resumed=True, is_forced=True)
        for resumed in (
            msgspec.structs.replace(request, is_forced=False),
            msgspec.structs.replace(request, settings=settings),
        ):
            with pytest.raises(JournalError, match="another process is writing the journal"):
                await other.runs.start(resumed)
        assert (tmp_path / "r-1" / "manifest.json").read_bytes() == began
        progress, folder = await node.finish("r-1")
        await other.start("r-1", is_resumed=True)
        again, _ = await other.finish("r-1")

    assert again.tasks == progress.tasks
    assert (await replay_run(folder)).differences == ()


async def test_a_question_of_an_onlooker_is_not_journalled(tmp_path: Path) -> None:
    search = ActorName("search/t")
    asked = Post(RunId("r")).envelope(ProgressWanted(), sender=ActorName("client"), to=search)

    with JournalWriter(tmp_path / "journal") as writer:
        recorder = open_recorder(writer)
        await recorder.heard(asked)
        await recorder.answered(asked, Progress(tasks=(), is_over=False))

    assert list(read_journal(tmp_path / "journal")) == []


@pytest.mark.parametrize("run", ["../away", "/away", "a/b", "..", ".", ""])
async def test_a_run_stays_in_the_folder_of_its_head(tmp_path: Path, run: str) -> None:
    node = FakeNode(tmp_path / "runs")

    async with node.open():
        with pytest.raises(RunRefusedError, match="no name of a run"):
            await node.start(run)

    assert not (tmp_path / "away").exists()


async def test_tasks_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    node = FakeNode(tmp_path / "runs")

    async with node.open():
        with pytest.raises(RunRefusedError, match="cannot be read"):
            await node.runs.start(StartRun(tasks=(b"\xc1",), settings=SETTINGS, run="r-1"))


async def test_an_empty_journal_is_nothing_to_replay(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "journal"):
        pass

    with pytest.raises(ReplayError, match="nothing to replay"):
        await replay_run(RunFolder(tmp_path))


async def test_closed_segments_are_archived_and_the_run_goes_on_from_what_is_left(
    tmp_path: Path,
) -> None:
    parts = HeadParts(open_journal=functools.partial(JournalWriter, segment_bytes=16 * 1024))
    node = FakeNode(tmp_path, parts=parts)
    async with node.open():
        await node.start("r-1")
        await node.watch(lambda progress: any(task.verified for task in progress.tasks))
        await node.runs.stop("r-1")
    journal = tmp_path / "r-1" / "journal"
    archived = {path.name for path in journal.glob("*.zst")}
    again = FakeNode(tmp_path, parts=parts)
    async with again.open():
        await again.start("r-1", is_resumed=True)
        progress, folder = await again.finish("r-1")

    assert len(archived) > 1
    assert [task.state for task in progress.tasks] == ["solved", "solved"]
    assert (await replay_run(folder)).differences == ()
    left = {record.kind for record in read_live(journal)}
    assert "ended" in left
    closed = [
        path for path in journal.glob("*.journal") if path.with_suffix(".journal.zst").exists()
    ]
    assert sum(path.stat().st_size for path in closed) < 4096, "only how its searches ended"


async def test_a_run_goes_on_with_the_policy_it_began_with_unless_forced(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        before, folder = await node.finish("r-1")
        manifest = tmp_path / "r-1" / "manifest.json"
        manifest.write_bytes(manifest.read_bytes().replace(b"fake table", b"fake chair"))

        with pytest.raises(
            RunChangedError, match="policy 'fake chair', and now it is 'fake table'"
        ):
            await node.start("r-1", is_resumed=True)
        assert folder.has_ended()
        request = run_request("r-1", CONFIG, (), is_resumed=True, is_forced=True)
        await node.runs.start(request)
        after, _ = await node.finish("r-1")

    assert after.tasks == before.tasks


class PoisonedSearch(TaskSearch):
    """Crashes over every leaf of one branch."""

    def _judged(self, branch: Branch, report: LeafReached) -> None:
        if report.branch_id == f"{TASKS[0].id}#2":
            raise ZeroDivisionError("poison")
        super()._judged(branch, report)


async def test_a_report_that_crashes_its_search_costs_its_branch_and_not_the_run(
    tmp_path: Path,
) -> None:
    parts = HeadParts(
        make_search=lambda task, settings: PoisonedSearch(
            task, settings, LeaseTable(), proposer=PROPOSER
        )
    )
    node = FakeNode(tmp_path, desktops=2, parts=parts)
    async with node.open():
        await node.start("r-1")
        with trio.fail_after(60):
            progress, _ = await node.finish("r-1")

    assert [task.state for task in progress.tasks] == ["solved", "solved"]
    assert [task.lost for task in progress.tasks] == [1, 0]
    assert "the search crashed over its report" in progress.tasks[0].detail


async def test_resuming_the_run_that_is_on_changes_nothing(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        await node.start("r-1", is_resumed=True)
        progress, _ = await node.finish("r-1")

    assert [task.state for task in progress.tasks] == ["solved", "solved"]
