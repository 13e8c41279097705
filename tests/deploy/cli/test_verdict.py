"""A verdict can be looked up long after it was reached, and is explained in plain words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envs_node.deploy.cli import main
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.deploy.verdicts import (
    VerdictUnknownError,
    find_verdict,
    latest_run,
    reproduced,
    verdicts_of,
)
from envs_node.messages.base import ActorName, BranchId, Envelope, MessageId, RunId, TaskId
from envs_node.messages.journal import JournalWriter, Kind
from envs_node.messages.search import BranchCost, BranchKind, LeafReached, ReplayCheck
from envs_node.messages.verify import Evidence, Exchange, Source, Verdict

Call = Callable[..., tuple[int, str, str]]
TASK = TaskId("t-0")
INFRA = Verdict(verdict="infra", reason="POST /file was answered with 500", phase="result")
SUCCESS = Verdict(
    verdict="success",
    score=1.0,
    phase="score",
    wall_ms=67,
    judged_ns=1_790_000_000 * 10**9,
    task_sha256="a" * 64,
    checker="desktop-env 1.0.2",
    checker_sha256="b" * 64,
    sources=(Source(module="desktop_env.evaluators.metrics.vscode", sha256="c" * 64),),
    evidence=(
        Evidence(name="a.txt", sha256="d" * 64, size_bytes=6),
        Evidence(name="gold.txt", sha256="e" * 64, size_bytes=7, is_gold=True),
    ),
    exchanges=(
        Exchange(method="POST", path="/file", status=200, size_bytes=6, phase="result"),
        Exchange(method="GET", path="/odd", status=0, size_bytes=0, error="closed", phase="metric"),
    ),
)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line; gives its status, its result and its story."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        assert isinstance(caught.value.code, int)
        return (caught.value.code, *capsys.readouterr())

    return run


def _leaf(branch: str, lease: int, verdict: Verdict, kind: BranchKind = "explore") -> LeafReached:
    return LeafReached(
        branch_id=BranchId(branch),
        task_id=TASK,
        lease=lease,
        kind=kind,
        reason="finish",
        verdict=verdict,
        steps=(),
        cost=BranchCost(),
        replay=ReplayCheck(),
    )


def _folder(path: Path, *leaves: LeafReached) -> RunFolder:
    folder = RunFolder(path)
    kinds: tuple[Kind, ...] = ("heard", "answered")  # search and driver may both have it
    search = ActorName(f"search/{TASK}")
    with JournalWriter(folder.journal) as writer:
        for number, leaf in enumerate(leaves):
            for kind in kinds:
                envelope = Envelope(
                    id=MessageId(str(number)),
                    sender=search,
                    to=search,
                    run=RunId("r"),
                    sequence=number,
                    time_ns=number,
                    message=leaf,
                )
                writer.append(search, kind, envelope)
    return folder


def test_verdicts_of_a_run_are_listed_and_each_is_explained(run: Path, call: Call) -> None:
    _, listed, _ = call("verdict", "ls", run, "--json")
    rows: list[dict[str, Any]] = msgspec.json.decode(listed)
    first = rows[0]

    code, text, _ = call("verdict", "show", first["id"][:10], "--run", run)

    assert code == 0
    assert {row["kind"] for row in rows} >= {"gate", "explore", "certify"}
    assert len({row["id"] for row in rows}) == len(rows)
    assert text.startswith(first["id"])
    assert "The task is not done at its start, so it was searched." in text


def test_an_explanation_holds_all_that_a_verdict_rests_on(tmp_path: Path, call: Call) -> None:
    folder = _folder(tmp_path / "r", _leaf("t-0#2", 7, SUCCESS))

    code, text, _ = call("verdict", "show", "t-0#2", "--run", folder.path)

    assert code == 0
    words = " ".join(text.split())
    for part in (
        "success: The checker gave the full score",
        "decided when the metric had answered",
        "Its path is replayed on a fresh desktop",
        "t-0, digest aaaaaaaaaaaa",
        "desktop-env 1.0.2 digest of its files bbbbbbbbbbbb",
        "67 ms, until 2026-09-21 14:13:20 UTC",
        "cccccccccccc desktop_env.evaluators.metrics.vscode",
        "result POST /file 200, 6 bytes",
        "metric GET /odd no answer (closed), 0 bytes",
        "dddddddddddd 6 bytes result a.txt",
        "eeeeeeeeeeee 7 bytes gold gold.txt",
    ):
        assert part in words


def test_what_became_of_a_verdict_of_a_fault_is_told(tmp_path: Path) -> None:
    again = _folder(tmp_path / "a", _leaf("t-0#2", 7, INFRA), _leaf("t-0#2", 9, SUCCESS))
    alone = _folder(tmp_path / "b", _leaf("t-0#2", 7, INFRA))

    retried, kept = verdicts_of(again)
    (waiting,) = verdicts_of(alone)

    assert retried.consequence == (
        "The branch was sent out again, and judged success under lease 9."
    )
    assert "up to infra_retries_max times" in waiting.consequence
    assert kept.verdict == SUCCESS


def test_how_often_a_success_was_one_again_is_told_by_task(tmp_path: Path, call: Call) -> None:
    failed = msgspec.structs.replace(SUCCESS, verdict="failure", score=0.0)
    again = [_leaf(f"t-0#{n}", n, SUCCESS, "certify") for n in (3, 4, 5)]
    other = _leaf("t-0#6", 6, failed, "certify")
    folder = _folder(
        tmp_path / "r",
        _leaf("t-0#2", 2, failed),
        *again,
        other,
        _leaf("t-0#7", 7, INFRA, "certify"),
    )

    code, text, _ = call("verdict", "flips", folder.path)

    (row,) = reproduced(verdicts_of(folder))
    assert (row.same, row.replays, row.flip_rate) == (3, 4, 0.25)
    assert (code, text.split()[:6]) == (0, ["t-0", "3/4", "the", "same,", "25%", "another"])


def test_an_unknown_id_is_refused_with_the_way_to_list(tmp_path: Path, call: Call) -> None:
    folder = _folder(tmp_path / "r", _leaf("t-0#2", 7, SUCCESS))

    code, out, story = call("verdict", "show", "zz", "--run", folder.path)

    assert (code, out) == (2, "")
    assert (
        f"has 1 verdicts and none begins with 'zz'; `envs-node verdict ls {folder.path}`" in story
    )


def test_an_id_that_several_begin_with_names_them(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "r", _leaf("t-0#2", 7, INFRA), _leaf("t-0#2", 9, SUCCESS))

    with pytest.raises(VerdictUnknownError, match=r"2 verdicts begin with 't-0#2': .*t-0#2/9"):
        find_verdict(folder, "t-0#2")

    assert find_verdict(folder, "t-0#2/9").verdict == SUCCESS


def test_without_a_run_the_latest_is_looked_at(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="--run RUN"):
        latest_run(tmp_path)
    _folder(tmp_path / "r", _leaf("t-0#2", 7, SUCCESS))

    assert latest_run(tmp_path).path == tmp_path / "r"


def test_a_folder_without_a_journal_is_refused_in_a_line(tmp_path: Path, call: Call) -> None:
    code, out, story = call("verdict", "ls", tmp_path)

    assert (code, out) == (2, "")
    assert "no journal" in story


def test_a_verdict_that_was_altered_in_the_journal_is_not_told(tmp_path: Path, call: Call) -> None:
    failed = msgspec.structs.replace(INFRA, verdict="failure")
    folder = _folder(tmp_path / "r", _leaf("t-0#2", 7, failed))
    (segment,) = folder.journal.glob("*.journal")
    segment.write_bytes(segment.read_bytes().replace(b"failure", b"success"))

    code, told, why = call("verdict", "ls", folder.path)

    assert (code, told) == (2, "")
    assert segment.name in why
