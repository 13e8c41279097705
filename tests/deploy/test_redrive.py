"""A recorded branch is driven again on a real desktop, and the first state that differs named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
import trio
from PIL import Image

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.post import Post
from envs_node.deploy.cli import main
from envs_node.deploy.cli.redrive import RedriveReport, settings_of
from envs_node.deploy.cli.verb import require_checker
from envs_node.deploy.config import Config, DesktopSettings
from envs_node.deploy.redrive import (
    BranchUnknownError,
    RedriveError,
    find_leaf,
    find_task,
    redrive,
)
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.messages.actions import Action, Key, Type
from envs_node.messages.base import ActorName, BranchId, RunId
from envs_node.messages.desktop import Observation, Signature
from envs_node.messages.journal import JournalWriter
from envs_node.messages.search import BranchCost, LeafReached, ReplayCheck, Step
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.fingerprint import fingerprint

BRANCH, LEASE = BranchId("mousepad-replace-text-000#2"), 7
SMALL = DesktopSettings(count=1, width=960, height=540)
UNSEEN = Signature(
    frame="", tiles=b"", columns=0, windows=(), focus="", elements="", files=""
)  # fmt: skip
ACTIONS = (Key(keys=("ctrl", "a")), Type(text="Paint stamps"), Key(keys=("ctrl", "s")))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def task() -> Task:
    (found,) = (t for t in bundled_tasks("train", 1) if t.template == "mousepad-replace-text")
    return found


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `envs-node replay`; gives its status, what it printed and what it complained of."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(["replay", *map(str, arguments)])
        said = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, said.out, said.err

    return run


def leaf_of(task: Task, *actions: Action, **more: object) -> LeafReached:
    """A branch as its search would have heard of it, but that nobody has seen."""
    unseen = Observation(
        width=SMALL.width, height=SMALL.height, elements=(), signature=UNSEEN, time_ns=0
    )  # fmt: skip
    steps = tuple(
        Step(
            observation=unseen,
            action=action,
            fingerprint=fingerprint(action),
            text="",
            log_prob=0.0,
            reached=UNSEEN,
            changed=True,
        )
        for action in actions
    )
    fields: dict[str, object] = {
        "branch_id": BRANCH,
        "task_id": task.id,
        "lease": LEASE,
        "kind": "explore",
        "reason": "finish",
        "verdict": Verdict(verdict="failure", score=0.0),
        "steps": steps,
        "cost": BranchCost(),
        "replay": ReplayCheck(),
        **more,
    }
    return LeafReached(**fields)  # type: ignore[arg-type]  # the codec checks them


def record(path: Path, task: Task, *leaves: LeafReached, config: Config | None = None) -> RunFolder:
    """A run whose search heard these reports."""
    folder = RunFolder.create(
        path, config=config or Config(), tasks=(task,), policy="none", checker="none", kind="search"
    )
    add(folder, *leaves)
    return folder


def add(folder: RunFolder, *leaves: LeafReached) -> None:
    post = Post(RunId("r"))
    with JournalWriter(folder.journal) as writer:
        for leaf in leaves:
            me = ActorName(f"search/{leaf.task_id}")
            writer.append(me, "heard", post.envelope(leaf, sender=ActorName("work/d"), to=me))


def test_of_several_reports_of_a_branch_the_last_that_was_judged_is_taken(
    task: Task, tmp_path: Path
) -> None:
    first = leaf_of(task, *ACTIONS)
    judged = leaf_of(task, *ACTIONS, lease=8)
    lost = leaf_of(task, lease=9, verdict=None, reason="infra")
    folder = record(tmp_path / "r", task, first, judged, lost)

    assert find_leaf(folder, BRANCH) == judged
    assert find_leaf(folder, BRANCH, 7) == first
    assert find_leaf(folder, BRANCH, 9) == lost
    assert find_task(folder, judged) == task


def test_a_branch_or_lease_that_is_not_there_is_refused_with_what_is(
    task: Task, tmp_path: Path, call: Run
) -> None:
    folder = record(tmp_path / "r", task, leaf_of(task, *ACTIONS))

    with pytest.raises(BranchUnknownError, match=r"near ones: mousepad-replace-text-000#2"):
        find_leaf(folder, "mousepad-replace-text-000#12")
    with pytest.raises(BranchUnknownError, match=r"has no lease 3; there are: 7"):
        find_leaf(folder, BRANCH, 3)
    code, _, complaint = call(folder.path, "--branch", "x#1")
    assert code == 2
    assert "no report of a branch x#1" in complaint


def test_a_folder_without_the_task_is_refused(task: Task, tmp_path: Path) -> None:
    leaf = leaf_of(task, *ACTIONS)
    folder = RunFolder(tmp_path / "desk-a")
    add(folder, leaf)

    assert find_leaf(folder, BRANCH) == leaf
    with pytest.raises(RunFolderError, match="has no tasks: give the run's folder"):
        find_task(folder, leaf)
    other = record(tmp_path / "r", task)
    with pytest.raises(RunFolderError, match="the run r has no task gone-000"):
        find_task(other, msgspec.structs.replace(leaf, task_id="gone-000"))


def test_it_is_driven_on_a_desktop_like_the_one_that_it_was_seen_on(
    task: Task, tmp_path: Path
) -> None:
    leaf = leaf_of(task, *ACTIONS)
    desktop = DesktopSettings(session="gnome", xserver="xorg", lower="/srv/x", ocr=True, count=9)
    folder = record(tmp_path / "r", task, config=Config(desktop=desktop))

    like = settings_of(folder, leaf)

    seen_on = msgspec.structs.replace(desktop, width=SMALL.width, height=SMALL.height)
    assert like.kind() == seen_on.kind()
    assert (like.count, like.warm, like.fork) == (1, 0, "off")
    assert settings_of(RunFolder(tmp_path / "desk-a"), leaf).kind() == SMALL.kind()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--branch", "b#1", "--step"), "--branch drives a desktop"),
        (("--out", "x.png"), "--out and --lease are of a branch"),
        (("--branch", "b#1", "--out", "x.html"), "name a file that ends in .png"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    flags: tuple[str, ...], complaint: str, tmp_path: Path, call: Run
) -> None:
    code, _, said = call(tmp_path, *flags)

    assert code == 2
    assert complaint in said


@pytest.mark.live
def test_a_recorded_branch_goes_the_same_way_again_and_an_altered_one_does_not(
    task: Task, tmp_path: Path, call: Run
) -> None:
    unseen = leaf_of(task, *ACTIONS)
    first = trio.run(redrive, unseen, task, require_checker(), SMALL)
    seen = msgspec.structs.replace(first.now, branch_id=BRANCH, kind="explore", reason="finish")
    folder = record(tmp_path / "r", task, seen)
    with LedgerStore(folder.ledger, free_bytes_min=0) as store:
        for frame, png in first.pictures.items():
            store.store_blob(frame, hashlib.sha256(png).hexdigest(), "png", png)

    strip = tmp_path / "strip.png"
    code, said, _ = call(folder.path, "--branch", BRANCH, "--out", strip, "--json")

    report = msgspec.json.decode(said, type=RedriveReport)
    assert (code, report.is_equal, report.diverged_at) == (0, True, -1)
    assert {drift.outcome for drift in report.drifts} <= {"equal", "masked"}
    assert next(drift.pixels for drift in report.drifts if drift.outcome == "equal") == 0.0
    assert report.verdict_then == report.verdict_now
    assert Image.open(BytesIO(strip.read_bytes())).format == "PNG"

    altered = Type(text="Paint stamps on Friday")
    steps = list(seen.steps)
    steps[1] = msgspec.structs.replace(
        steps[1], action=altered, fingerprint=fingerprint(altered)
    )  # fmt: skip
    add(folder, msgspec.structs.replace(seen, steps=tuple(steps), lease=8))
    code, said, _ = call(folder.path, "--branch", BRANCH, "--json")

    report = msgspec.json.decode(said, type=RedriveReport)
    assert (code, report.is_equal, report.diverged_at) == (1, False, 2)
    assert [drift.outcome for drift in report.drifts[:2]] == ["equal", "equal"]
    assert "elements" in report.drifts[2].parts
    assert report.drifts[3].parts[-1] == "files"


@pytest.mark.live
def test_a_task_that_cannot_be_set_up_is_an_error_and_no_drift(task: Task) -> None:
    broken = msgspec.structs.replace(task, files=(), sha256="0" * 64)

    with pytest.raises(RedriveError, match=r"could not be driven \(task\)"):
        trio.run(redrive, leaf_of(task, *ACTIONS), broken, require_checker(), SMALL)
