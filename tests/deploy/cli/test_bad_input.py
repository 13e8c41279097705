"""Bad input is one line that names the thing and the way out; nothing starts, nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.cli import main
from envs_node.deploy.config import BASE_POLICY
from envs_node.deploy.doctor import PROGRAMS
from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from tests.deploy.nodes import ENVS_NODE

Refuse = Callable[..., str]
TASK = next(t for t in bundled_tasks("train", 1) if t.apps == ("mousepad",))


@pytest.fixture
def refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Refuse:
    """Runs the command line; gives its one line, having looked that nothing was left."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        story = captured.err.splitlines()
        lines = [line for line in story if line.startswith("envs-node: ")]
        assert caught.value.code == 2, captured.err
        assert captured.out == ""
        assert len(lines) == 1, captured.err
        assert not any("Traceback" in line for line in story)
        assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before, "something is left"
        return lines[0]

    return run


@pytest.fixture
def task_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a bundled task with some of its text replaced."""

    def write(old: bytes = b"", new: bytes = b"") -> Path:
        write_tasks(tmp_path / "tasks", (TASK,))
        path = tmp_path / "tasks" / f"{TASK.id}.json"
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))
        return path

    return write


def test_a_task_that_is_not_json(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{ not json")

    line = refuse("search", path)

    assert "x.json" in line
    assert "JSON" in line


def test_a_task_with_an_unknown_metric(refuse: Refuse, task_file: Callable[..., Path]) -> None:
    metric = msgspec.json.decode(TASK.json)["evaluator"]["func"].encode()

    line = refuse("search", task_file(metric, b"compare_souls"))

    assert TASK.id in line
    assert "compare_souls" in line


def test_a_task_with_an_unknown_set_up_step(refuse: Refuse, task_file: Callable[..., Path]) -> None:
    line = refuse("search", task_file(b'"launch"', b'"levitate"'))

    assert "levitate" in line
    assert f"{TASK.id}.json" in line


def test_tasks_that_are_not_there(refuse: Refuse) -> None:
    assert "no such tasks: nowhere; give a file, a folder" in refuse("search", "nowhere")


def test_a_folder_without_tasks(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert "empty: path: holds no task" in refuse("search", "empty")


def test_a_task_whose_set_up_no_desktop_has(refuse: Refuse, task_file: Callable[..., Path]) -> None:
    line = refuse("search", task_file(b'"launch"', b'"googledrive"'))

    assert f"{TASK.id} cannot be set up here: set-up step 1 (googledrive)" in line


@pytest.mark.parametrize("verb", ["search", "eval"])
def test_a_policy_that_is_not_there(
    refuse: Refuse, task_file: Callable[..., Path], verb: str
) -> None:
    line = refuse(verb, task_file(), "--policy.folder", "no-policy")

    assert "no-policy" in line


def test_a_policy_of_another_kind(
    refuse: Refuse, task_file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')

    line = refuse("search", task_file(), "--policy.folder", "bert")

    assert "bert" in line


@pytest.mark.parametrize(
    ("lower", "said"),
    [
        ("nowhere", "No such file or directory"),
        ("/etc/passwd", "neither a folder nor an image"),
        ("/etc", "Xvfb (package xvfb)"),
    ],
)
def test_a_tree_that_no_desktop_can_stand_on(
    refuse: Refuse, task_file: Callable[..., Path], lower: str, said: str
) -> None:
    line = refuse("search", task_file(), "--desktop.lower", lower)

    assert f"desktop.lower: /{lower}".replace("//", "/") in line.replace(os.getcwd(), "")
    assert said in line


def test_a_desktop_whose_programs_are_not_installed(
    refuse: Refuse, task_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = task_file()
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in PROGRAMS:
        if found := shutil.which(program):
            (bare / Path(program).name).symlink_to(found)
    monkeypatch.setenv("PATH", str(bare))

    line = refuse("search", path, "--desktop.record")

    assert "desktop.record: needs ffmpeg; apt-get install ffmpeg" in line


def test_a_run_folder_that_exists(
    refuse: Refuse, task_file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "r-1").mkdir()
    (tmp_path / "r-1" / "thesis.txt").write_text("mine")

    line = refuse("search", task_file(), "--run", "r-1")

    assert "r-1 exists; choose another with --run, or go on with it by --resume" in line


def test_a_run_folder_in_a_file(
    refuse: Refuse, task_file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("mine")

    line = refuse("search", task_file(), "--run", "notes/r-1")

    assert "notes is no folder: no run can be kept in notes; name another folder" in line


@pytest.mark.parametrize("verb", ["--run", "--resume"])
def test_a_run_folder_with_a_name_too_long(
    refuse: Refuse, task_file: Callable[..., Path], verb: str
) -> None:
    assert "File name too long" in refuse("search", task_file(), verb, "r" * 300)


@pytest.mark.parametrize("arguments", [("ledger", "ls"), ("replay",), ("fit",)])
def test_a_path_too_long(refuse: Refuse, arguments: tuple[str, ...]) -> None:
    assert "File name too long" in refuse(*arguments, "r" * 300)


def test_results_that_nobody_reads_to_their_end(tmp_path: Path) -> None:
    command = [str(ENVS_NODE), "tasks", "ls", "train", "--instances", "50", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_policy_that_cannot_be_kept_is_not_made(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    LedgerStore(tmp_path / "ledger.sqlite").close()
    said = "notes is no folder: no policy can be kept in notes/p; name another folder"

    assert said in refuse("fit", "ledger.sqlite", "--out", "notes/p")
    assert said in refuse("policy", "make-base", "notes/p")


def test_results_for_nobody(tmp_path: Path) -> None:
    command = ["sh", "-c", '"$0" tasks ls train >&-', str(ENVS_NODE)]
    ended = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_file_takes_the_place_of_a_closed_standard_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from envs_node.deploy.cli.main import main\n"
        "try:\n"
        "    main(['policy', 'show', '--json'])\n"
        "except SystemExit as end:\n"
        "    opened = os.open('file', os.O_CREAT | os.O_WRONLY)\n"
        "    places = [os.readlink(f'/proc/self/fd/{fd}') for fd in range(3)]\n"
        "    os.write(opened, repr((end.code, opened > 2, *places)).encode())\n"
    )
    command = ["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)

    assert (tmp_path / "file").read_text() == repr((0, True, *["/dev/null"] * 3))


def test_a_run_to_resume_that_is_none(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()

    assert "photos is no run: it has no manifest.json" in refuse("search", "--resume", "photos")


@pytest.mark.parametrize("verb", ["search", "eval", "demo", "fit", "start"])
def test_an_unknown_key_in_the_configuration(refuse: Refuse, tmp_path: Path, verb: str) -> None:
    (tmp_path / "envs.toml").write_text("[search]\nbranch_max = 3\n")

    line = refuse(verb, "--config", "envs.toml")

    assert "envs.toml" in line
    assert "unknown field `branch_max` - at `$.search`" in line


def test_a_configuration_that_is_not_there(refuse: Refuse) -> None:
    assert "none.toml: No such file" in refuse("search", "--config=none.toml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "--search.support-min", "9"), "search.support_min is 9"),
        (("search", "--instances", "0"), "instances is 0"),
        (("search", "--task-seed", "-1"), "seed is -1; it must not be negative"),
        (("start", "--role", "desktop"), "needs the address of its head: give --head"),
        (("fit", "nowhere"), "nowhere"),
        (("fit", "nowhere", "--fit.epochs", "0"), "fit.epochs is 0"),
        (("replay", "nowhere"), "nowhere is no run"),
        (("ledger", "ls", "nowhere"), "nowhere"),
        (("ledger", "stats", "nowhere"), "nowhere"),
        (("ledger", "show", "nowhere", "abc"), "nowhere"),
        (("eval", "--rollouts", "0"), "--rollouts is 0"),
        (("eval", "--k", "0"), "--k is 0"),
        (("eval", "nowhere"), "no such tasks: nowhere"),
        (("policy", "show", "nowhere"), "nowhere"),
        (("plan", "--cores", "-3"), "--cores is -3"),
        (("plan", "--steps", "0"), "--steps is 0"),
        (("plan", "--think-s", "nan"), "--think-s is nan"),
        (("plan", "--price-per-hour", "-1"), "--price-per-hour is -1.0"),
        (("plan", "--check", "--desktops", "0"), "--desktops is 0"),
        (("plan", "--app-mix", "calc=nan"), "'calc=nan' is no share"),
        (("plan", "--app-mix", "calc=inf"), "'calc=inf' is no share"),
        (("plan", "--app-mix", "calc=2,vlc=-1"), "'vlc=-1' is no share"),
    ],
)
def test_a_number_or_a_place_that_makes_no_sense(
    refuse: Refuse, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refuse(*arguments)


def test_one_whom_the_host_forbids_desktops_is_told_so(
    tmp_path: Path, task_file: Callable[..., Path]
) -> None:
    """Root in a user namespace, as in a container of a user's own, may not make devices."""
    path = task_file()
    as_other = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*as_other, "true"], check=False).returncode:
        pytest.skip("this host has no user namespaces to be another user in")

    done = subprocess.run(
        [*as_other, ENVS_NODE, "search", path, "--run", tmp_path / "r-1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("envs-node: "))
    assert "privilege" in line
    assert "--privileged" in line, "the way out"
    assert not (tmp_path / "r-1").exists()


def test_the_built_in_policy_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["policy", "show", "--json"])

    shown = msgspec.json.decode(capsys.readouterr().out)
    assert caught.value.code == 0
    assert shown["name"].startswith(BASE_POLICY.name)


def test_what_goes_on_with_nothing_is_refused(refuse: Refuse) -> None:
    assert "--force goes on with a run of old: give --resume" in refuse("search", "--force")
    assert "a desktop node has no runs to go on with" in refuse(
        "start", "--role", "desktop", "--head", "tcp://127.0.0.1:1", "--resume"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("checker", "where", "--name", "nope"), "no checker is called 'nope'"),
        (("demo", "--instances", "0"), "--instances is 0; it must be between 1 and 50"),
        (("demo", "--held-out", "99"), "--held-out is 99; it must be between 1 and 50"),
        (("tasks", "fetch", ".", "--jobs", "0"), "--jobs is 0; it must be at least 1"),
        (("tasks", "fetch", ".", "--file-s", "nan"), "--file-s is nan; it must be at least 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(
    refuse: Refuse, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refuse(*arguments)
