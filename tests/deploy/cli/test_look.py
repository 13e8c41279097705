"""What a run found and decided can be looked at: the result on stdout, the story on stderr."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envs_node.deploy.cli import main

Look = Callable[..., tuple[int, str]]


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str]) -> Look:
    """Runs the command line; gives its status and what it printed as the result."""

    def call(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        assert isinstance(caught.value.code, int)
        return caught.value.code, capsys.readouterr().out

    return call


def _read(printed: tuple[int, str]) -> Any:
    assert printed[0] == 0
    return msgspec.json.decode(printed[1])


def test_successes_are_listed_shown_and_counted(run: Path, look: Look) -> None:
    rows = _read(look("ledger", "ls", run, "--json"))
    shown = _read(look("ledger", "show", run, rows[0]["id"][:12], "--json"))
    stats = _read(look("ledger", "stats", run, "--json"))

    assert len(rows) == stats["certified"] == 4
    assert rows[0]["path"] == ["type hi", "key ctrl+s"]
    assert shown["policy"] == "fake table"
    assert [step["fingerprint"] for step in shown["steps"]][:2] == rows[0]["path"]
    assert all(Path(step["screenshot"]).is_file() for step in shown["steps"])


def test_screenshots_that_are_not_what_was_kept_are_named(
    run: Path, look: Look, tmp_path: Path
) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    id_ = _read(look("ledger", "ls", other, "--json"))[0]["id"]
    first, second = _read(look("ledger", "show", other, id_, "--json"))["steps"][:2]
    Path(first["screenshot"]).unlink()
    Path(second["screenshot"]).write_bytes(b"another picture")

    steps = _read(look("ledger", "show", other, id_, "--json"))["steps"]
    _, text = look("ledger", "show", other, id_)

    assert [step["screenshot_lack"] for step in steps][:2] == ["missing", "altered"]
    assert {step["screenshot_lack"] for step in steps[2:]} <= {""}
    assert f"{first['screenshot']} (missing)" in text
    assert f"{second['screenshot']} (altered)" in text


def test_lines_for_people_name_the_path(run: Path, look: Look) -> None:
    status, text = look("ledger", "ls", run)

    assert status == 0
    assert "type hi > key ctrl+s" in text
    assert len(text.splitlines()) == 4


def test_an_id_that_nothing_begins_with_is_misuse(run: Path, look: Look) -> None:
    assert look("ledger", "show", run, "zzz") == (2, "")


def test_a_sound_journal_replays_with_status_0(run: Path, look: Look) -> None:
    status, text = look("replay", run)

    assert status == 0
    assert "every decision is identical" in text


def test_a_changed_proposal_replays_with_status_1_and_is_named(run: Path, look: Look) -> None:
    (segment,) = (run / "journal").glob("*.journal")
    data = segment.read_bytes()
    place = data.index(b"hi", data.index(b"Proposed"))
    segment.write_bytes(data[:place] + b"ho" + data[place + 2 :])

    status, text = look("replay", run)
    _, report = look("replay", run, "--json")

    assert status == 1
    assert "DIFFERS replay/fake-" in text
    assert "recorded -1.0, now -1.125" in text
    assert "1 journal entries are damaged" in text
    (only,) = msgspec.json.decode(report)
    assert only["damaged"] == len(only["differences"]) == 1


def test_bundled_tasks_are_listed_and_written(tmp_path: Path, look: Look) -> None:
    rows = _read(look("tasks", "ls", "train", "--json"))
    status, _ = look("tasks", "make", tmp_path / "tasks", "train", "--instances", "1")

    assert status == 0
    written = {path.stem for path in (tmp_path / "tasks").glob("*.json")}
    assert written == {row["id"] for row in rows}
    again = _read(look("tasks", "ls", tmp_path / "tasks", "--json"))
    assert {row["instruction"] for row in again} == {row["instruction"] for row in rows}


def test_every_verb_prints_json_when_asked(look: Look, tmp_path: Path) -> None:
    files = _read(look("tasks", "make", tmp_path / "t", "held-out", "--instances", 1, "--json"))
    where = _read(look("checker", "where", "--json"))

    assert sorted(files) == sorted(str(path) for path in (tmp_path / "t").glob("*.json"))
    assert Path(where).is_dir()
