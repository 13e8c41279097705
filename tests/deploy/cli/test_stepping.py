"""`envs-node replay --step` asks on a terminal, and prints every step where there is none."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.cli import main
from envs_node.deploy.stepping import ReplayStep, Stepped

SEARCH = "search/note-000"


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["replay", *map(str, arguments)])
    said = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, said.out, said.err


def test_without_a_terminal_every_step_is_a_record(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = replay(capsys, run, "--step", "--actor", SEARCH, "--json")

    steps = msgspec.json.decode(said, type=tuple[ReplayStep, ...])
    assert code == 0
    assert len(steps) > 20
    assert [s.sequence for s in steps] == sorted({s.sequence for s in steps})
    assert {s.actor for s in steps} == {SEARCH}


def test_until_an_entry_the_state_is_printed_and_what_is_not_there_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = replay(capsys, run, "--until", 20, "--json")
    refused, _, complaint = replay(capsys, run, "--until", 100_000)

    there = msgspec.json.decode(said, type=Stepped)
    assert (code, there.until, len(there.steps)) == (0, 20, 1)
    assert there.state
    assert refused == 2
    assert "no entry 100000 in" in complaint
    assert "they are 0 to" in complaint


def test_of_a_run_with_others_inside_it_its_own_actors_are_looked_at(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo's folder holds its evals."""
    shutil.copytree(run, tmp_path / "demo")
    shutil.copytree(run, tmp_path / "demo" / "eval-after")

    code, said, _ = replay(capsys, tmp_path / "demo", "--until", 20, "--json")
    again, reports, _ = replay(capsys, tmp_path / "demo", "--actor", SEARCH, "--json")
    everything, all_reports, _ = replay(capsys, tmp_path / "demo", "--json")

    assert (code, again, everything) == (0, 0, 0)
    assert msgspec.json.decode(said, type=Stepped).until == 20
    assert len(msgspec.json.decode(reports)) == 1
    assert len(msgspec.json.decode(all_reports)) == 2


def test_on_a_terminal_it_goes_on_jumps_shows_the_state_and_quits(run: Path) -> None:
    code, said = _on_terminal(
        [str(run), "--step", "--actor", SEARCH], ["", "s", "x", "4444", "", "q"]
    )

    assert code == 0
    assert said.count("[Enter next") == 6
    assert said.count("search of note-000:") == 1
    assert "no entry x of search/note-000" in said
    assert "no entry 4444 of search/note-000: its entries are among 0 to" in said


def _on_terminal(arguments: list[str], typed: list[str]) -> tuple[int, str]:
    """Run the command on a terminal of its own; its status and all that the terminal showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from envs_node.deploy.cli import main; main()", "replay"]
    process = subprocess.Popen(
        [*command, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in typed).encode())
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other end was closed: nobody shows anything any more
        pass
    os.close(ours)
    return process.wait(timeout=30), shown.decode()
