"""A search and a real ledger: each success is kept once, and a crash changes nothing."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from envs_node.actors.ledger.actor import LedgerActor
from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, Ref
from envs_node.actors.post import Post
from envs_node.actors.recorder import Recorder
from envs_node.actors.search.actor import SearchActor
from envs_node.deploy.journals import RebuiltSearch
from envs_node.messages.base import ActorName, Message, RunId
from envs_node.messages.journal import Entry, JournalWriter, read_journal
from envs_node.messages.ledger import Admit, Admitted, OutcomeKept, TaskOutcome
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import (
    Assign,
    Idle,
    LeaseLapsed,
    Progress,
    ProgressWanted,
    Renew,
    Renewed,
    TaskProgress,
    Tick,
    WorkerFreed,
    WorkWanted,
)
from envs_node.policy.task_search import TaskSearch
from envs_node.supervisor.lease import LeaseTable
from tests.fakes import fake_task, note_screen
from tests.policy.drive import drive

SETTINGS = SearchSettings(leaves_task_max=4, successes_task_max=2, steps_max=5)
TASK = fake_task()
SEARCH, LEDGER, WORK = ActorName(f"search/{TASK.id}"), ActorName("ledger"), ActorName("work/0")


def _search() -> TaskSearch:
    return TaskSearch(TASK, SETTINGS, LeaseTable(), proposer=ActorName("proposer"))


@asynccontextmanager
async def _head(folder: Path, post: Post) -> AsyncIterator[Ref]:
    """A search and a ledger under way; gives the search."""
    make_store = functools.partial(LedgerStore, folder / "ledger.sqlite")
    actor = SearchActor(_search(), post.ref(LEDGER, sender=SEARCH))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, LedgerActor(make_store), LEDGER, post)
            await nursery.start(run_actor, actor, SEARCH, post)
            yield post.ref(SEARCH, sender=WORK)
            nursery.cancel_scope.cancel()


async def _work_to_end(search: Ref) -> TaskProgress:
    """Be the only desktop, and say every leaf twice."""
    while True:
        answer = await search.ask(WorkWanted(worker=WORK), timeout_s=20)
        if isinstance(answer, Idle):
            assert answer.is_over
            progress = await search.ask(ProgressWanted(), timeout_s=20)
            assert isinstance(progress, Progress)
            return progress.tasks[0]
        assert isinstance(answer, Assign)
        nodes, leaf = drive(note_screen(), answer)
        for node in nodes:
            await search.ask(node, timeout_s=20)
        for _ in range(2):
            assert isinstance(await search.ask(leaf, timeout_s=20), Renewed)


async def test_a_success_is_kept_once_though_its_report_comes_twice(tmp_path: Path) -> None:
    async with _head(tmp_path, Post(RunId("test"))) as search:
        progress = await _work_to_end(search)

    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store:
        kept = store.trajectories(certified_only=True)
        outcomes = store.outcomes()
    assert progress.distinct == len(kept) == 2
    assert len({trajectory.path for trajectory in kept}) == 2
    assert {trajectory.policy for trajectory in kept} == {"table"}
    (outcome,) = outcomes
    assert (outcome.state, outcome.leaves, outcome.successes) == ("solved", 2, 2)


async def test_a_report_under_an_old_lease_is_refused(tmp_path: Path) -> None:
    async with _head(tmp_path, Post(RunId("test"))) as search:
        assign = await search.ask(WorkWanted(worker=WORK), timeout_s=20)
        assert isinstance(assign, Assign)
        _, leaf = drive(note_screen(), msgspec.structs.replace(assign, lease=assign.lease - 1))

        answer = await search.ask(leaf, timeout_s=20)

    assert isinstance(answer, LeaseLapsed)


async def test_a_tick_lets_leases_lapse_and_has_no_answer(tmp_path: Path) -> None:
    now_ns = 0
    async with _head(tmp_path, Post(RunId("test"), clock_ns=lambda: now_ns)) as search:
        first = await search.ask(WorkWanted(worker=WORK), timeout_s=20)
        now_ns = SETTINGS.lease_ms * 1_000_000
        search.tell(Tick())
        second = await search.ask(WorkWanted(worker=WORK), timeout_s=20)

    assert isinstance(first, Assign)
    assert isinstance(second, Assign)
    assert second.branch_id == first.branch_id
    assert second.lease > first.lease


async def test_ticks_that_change_nothing_are_not_journalled_and_the_rest_are(
    tmp_path: Path,
) -> None:
    now_ns = 1
    with JournalWriter(tmp_path / "journal") as writer:
        recorder = Recorder(writer, wants=lambda name: name == SEARCH)
        post = Post(RunId("test"), clock_ns=lambda: now_ns, recorder=recorder)
        async with _head(tmp_path, post) as search:
            await search.ask(WorkWanted(worker=WORK), timeout_s=20)
            search.tell(Tick())
            search.tell(Tick())
            await search.ask(ProgressWanted(), timeout_s=20)
            now_ns += SETTINGS.lease_ms * 1_000_000
            search.tell(Tick())
            search.tell(Tick())
            progress = await search.ask(ProgressWanted(), timeout_s=20)

    heard = [e.envelope for e in read_journal(tmp_path / "journal") if e.kind == "heard"]
    ticks = [e for e in heard if e is not None and isinstance(e.message, Tick)]
    assert [tick.time_ns for tick in ticks] == [now_ns]
    assert isinstance(progress, Progress)
    assert progress.tasks[0].reassigned == 1


def _heard(past: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in past if entry.kind == "heard"]


async def _original(folder: Path) -> list[Entry]:
    """The journal of a whole small search."""
    with JournalWriter(folder / "journal") as writer:
        recorder = Recorder(writer, wants=lambda name: name == SEARCH)
        async with _head(folder, Post(RunId("test"), recorder=recorder)) as search:
            await _work_to_end(search)
    return list(read_journal(folder / "journal"))


async def _progress_of(actor: SearchActor, at: Entry) -> Message | None:
    assert at.envelope is not None
    actor.envelope = at.envelope  # type: ignore[assignment]  # narrower
    return await actor.hear(ProgressWanted())


async def test_a_search_cut_anywhere_is_rebuilt_and_decides_as_it_did(tmp_path: Path) -> None:
    entries = await _original(tmp_path)
    post = Post(RunId("test"))
    said = {
        e.envelope.cause: e.envelope.message for e in entries if e.kind == "answered" if e.envelope
    }
    expected: list[Message | None] = []

    async with _head(tmp_path, post):
        ledger = post.ref(LEDGER, sender=SEARCH)
        walking = SearchActor(_search(), ledger)
        for entry in _heard(entries):
            assert entry.envelope is not None
            walking.envelope = entry.envelope  # type: ignore[assignment]  # narrower
            await walking.hear(entry.envelope.message)  # type: ignore[arg-type]
            expected.append(await _progress_of(walking, entry))
        for cut in range(1, len(entries) + 1):
            past = entries[:cut]
            rebuilt = RebuiltSearch(_search(), ledger, past)
            await rebuilt.start()
            count = len(_heard(past))
            if count:
                assert await _progress_of(rebuilt, _heard(past)[-1]) == expected[count - 1], cut
            for following in _heard(entries)[count : count + 1]:
                assert following.envelope is not None
                rebuilt.envelope = following.envelope  # type: ignore[assignment]  # narrower
                decision = await rebuilt.hear(following.envelope.message)  # type: ignore[arg-type]
                assert decision == said[following.envelope.id], f"cut at entry {cut}"

    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store:
        assert store.stats().certified == 2


class ForgetfulLedger:
    """A ledger that is away for so many requests, and answers those after."""

    def __init__(self, away: int) -> None:
        self.name = LEDGER
        self.asked: list[Message] = []
        self._away = away

    async def ask(self, message: Message, *, timeout_s: float) -> Message:
        self.asked.append(message)
        if len(self.asked) <= self._away:
            raise ActorCrashedError(self.name, "nobody of that name is here")
        if isinstance(message, Admit):
            return Admitted(trajectory_id=message.trajectory.id)
        return OutcomeKept(task_id=TASK.id)

    def tell(self, message: Message) -> None:
        raise AssertionError("a search asks its ledger")


async def test_a_ledger_that_is_away_is_told_later_and_the_task_is_not_over_before() -> None:
    ledger = ForgetfulLedger(away=3)
    post = Post(RunId("test"))
    search = post.ref(SEARCH, sender=WORK)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_actor, SearchActor(_search(), ledger), SEARCH, post)
            over = 0
            for _ in range(40):
                answer = await search.ask(WorkWanted(worker=WORK), timeout_s=20)
                if isinstance(answer, Assign):
                    nodes, leaf = drive(note_screen(), answer)
                    for report in (*nodes, leaf):
                        assert isinstance(await search.ask(report, timeout_s=20), Renewed)
                elif isinstance(answer, Idle) and answer.is_over:
                    over += 1
                    break
            progress = await search.ask(ProgressWanted(), timeout_s=20)
            nursery.cancel_scope.cancel()

    admitted = {m.trajectory.id for m in ledger.asked[3:] if isinstance(m, Admit)}
    assert over == 1
    assert isinstance(progress, Progress)
    assert (progress.is_over, progress.tasks[0].distinct) == (True, len(admitted))
    assert isinstance(ledger.asked[-1], TaskOutcome)


async def test_a_frozen_holder_that_wakes_changes_nothing(tmp_path: Path) -> None:
    now_ns = 0
    async with _head(tmp_path, Post(RunId("test"), clock_ns=lambda: now_ns)) as search:
        gate = await search.ask(WorkWanted(worker=WORK), timeout_s=20)
        assert isinstance(gate, Assign)
        await search.ask(drive(note_screen(), gate)[1], timeout_s=20)
        frozen = await search.ask(WorkWanted(worker=ActorName("work/9")), timeout_s=20)
        assert isinstance(frozen, Assign)
        now_ns = 2 * SETTINGS.lease_ms * 1_000_000
        progress = await _work_to_end(search)
        nodes, leaf = drive(note_screen(), frozen)
        for late in (*nodes, leaf, Renew(branch_id=frozen.branch_id, lease=frozen.lease)):
            assert isinstance(await search.ask(late, timeout_s=20), LeaseLapsed)
        after = await search.ask(ProgressWanted(), timeout_s=20)

    assert isinstance(after, Progress)
    assert (after.tasks[0].nodes, after.tasks[0].distinct) == (progress.nodes, progress.distinct)
    assert after.tasks[0].refused == 1
    with LedgerStore(tmp_path / "ledger.sqlite", is_read_only=True) as store:
        assert len(store.trajectories(certified_only=True)) == progress.distinct


async def test_a_worker_that_started_over_frees_its_branch(tmp_path: Path) -> None:
    async with _head(tmp_path, Post(RunId("test"))) as search:
        first = await search.ask(WorkWanted(worker=ActorName("work/9")), timeout_s=20)
        search.tell(WorkerFreed(worker=ActorName("work/9")))
        second = await search.ask(WorkWanted(worker=WORK), timeout_s=20)

    assert isinstance(first, Assign)
    assert isinstance(second, Assign)
    assert (second.branch_id, second.lease > first.lease) == (first.branch_id, True)
