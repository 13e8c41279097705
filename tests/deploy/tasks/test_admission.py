"""The admission gate on real desktops: what it lets in, and what it keeps out and why."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.cli.task_source import (
    TasksError,
    find_tasks,
)
from envs_node.deploy.tasks.admission import Admission, Gate
from envs_node.deploy.tasks.bundle import bundled_solution, bundled_tasks
from envs_node.deploy.tasks.quarantine import (
    QUARANTINE,
    QuarantineError,
    append_record,
    read_quarantine,
    read_records,
    write_lists,
)
from envs_node.messages.actions import Finish, Key, Type
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import read_task

METRICS = Path(__file__).parents[2] / "actors/verifier/metrics_for_tests.py"
FOLDER = next(t for t in bundled_tasks("train", 1) if t.template == "xterm-make-folder")
RECORD = Admission(
    task_id="a", task_sha256="1", checker="c", repeats=3, is_admitted=False, reason="vacuous | so",
    findings=(), has_solution=False, wall_s=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    """One with a metric that never says the same twice."""
    checker = functools.partial(Checker, overlay={"waver": METRICS})
    with Launcher() as launcher:
        gate = Gate(
            read_checker(checker_folder()), lambda: Sandbox(launcher), repeats=2, checker=checker
        )
        yield gate
        gate.close()


def with_evaluator(func: str, command: list[str], rules: dict[str, object]) -> Task:
    """The task with a folder to make, judged otherwise."""
    changed = json.loads(FOLDER.json)
    changed["id"] = func.replace("_", "-")
    changed["evaluator"] = {
        "func": func,
        "result": {"type": "vm_command_line", "command": command},
        "expected": {"type": "rule", "rules": rules},
    }
    vocabulary = read_checker(checker_folder()).vocabulary
    known = msgspec.structs.replace(vocabulary, metrics=vocabulary.metrics | {"waver"})
    return read_task(json.dumps(changed).encode(), {}, known, file="changed.json")


def test_a_task_whose_solution_succeeds_each_time_is_admitted(gate: Gate) -> None:
    record = gate.admit(FOLDER, bundled_solution(FOLDER))

    assert record.is_admitted, record.reason
    assert {f.check: f.scores for f in record.findings} == {
        "reading": (), "dead desktop": (None,), "empty desktop": (0.0,), "do nothing": (0.0, 0.0),
        "solution": (1.0, 1.0),
    }  # fmt: skip


def test_a_solution_that_does_not_solve_it_keeps_a_task_out(gate: Gate) -> None:
    record = gate.admit(FOLDER, (Type(text="ls"), Key(keys=("enter",)), Finish()))

    assert record.reason.startswith("solution: judged failure, score 0")


def test_what_succeeds_untouched_is_vacuous(gate: Gate) -> None:
    told = gate.admit(
        with_evaluator("exact_match", ["echo", "x"], {"expected": "x\n"}), None
    ).reason

    assert told == "do nothing: vacuous: doing nothing scores 1"


def test_what_an_empty_desktop_passes_is_kept_out(gate: Gate) -> None:
    rules: dict[str, object] = {"include": [], "exclude": ["error"]}
    task = with_evaluator("check_include_exclude", ["echo", "error"], rules)

    assert gate.admit(task, None).reason == "empty desktop: success"


def test_a_score_that_is_another_each_time_keeps_a_task_out(gate: Gate) -> None:
    record = gate.admit(with_evaluator("waver", ["echo"], {}), None)

    assert record.reason.startswith("do nothing: not the same each time: scores 0.")


def test_a_checker_that_raises_each_time_on_what_was_not_done_is_no_fault(gate: Gate) -> None:
    task = with_evaluator("check_gnome_favorite_apps", ["echo", "nothing here"], {"expected": []})

    record = gate.admit(task, None)

    assert record.is_admitted, record.reason
    assert record.findings[-1].scores == (None, None)


def test_what_cannot_be_set_up_is_kept_out_as_that_and_not_as_vacuous(gate: Gate) -> None:
    changed = json.loads(FOLDER.json)
    changed["config"].append({"type": "execute", "parameters": {"command": ["no-such-program"]}})
    vocabulary = read_checker(checker_folder()).vocabulary
    task = read_task(json.dumps(changed).encode(), {}, vocabulary, file="changed.json")

    reason = gate.admit(task, None).reason

    assert reason.startswith("do nothing: unsupported: the set-up fails")
    assert "no-such-program" in reason


def test_what_a_broken_checker_says_is_no_fault_of_the_task(tmp_path: Path) -> None:
    checker = functools.partial(Checker, verdict_s=0.0)
    with Launcher() as launcher:
        gate = Gate(read_checker(checker_folder()), lambda: Sandbox(launcher), checker=checker)
        record = gate.admit(FOLDER, None)
        gate.close()

    write_lists(tmp_path, [record], ())

    assert (record.is_admitted, record.is_undecided) == (False, True)
    assert not (tmp_path / QUARANTINE).read_bytes()
    assert "could not tell" in (tmp_path / "admission.md").read_text()


def test_who_lets_nobody_read_new_files_has_desktops_and_verdicts_all_the_same() -> None:
    before = os.umask(0o077)
    try:
        with Launcher() as launcher:
            gate = Gate(read_checker(checker_folder()), lambda: Sandbox(launcher), repeats=1)
            record = gate.admit(FOLDER, bundled_solution(FOLDER))
            gate.close()
    finally:
        os.umask(before)

    assert record.is_admitted, record.reason


def test_a_task_that_was_changed_has_no_solution_of_the_bundle() -> None:
    other = with_evaluator("exact_match", ["echo"], {"expected": "x"})

    assert bundled_solution(FOLDER) is not None
    assert bundled_solution(other) is None


def test_what_was_found_before_the_gate_died_is_kept(tmp_path: Path) -> None:
    append_record(tmp_path, RECORD)
    with (tmp_path / "admission.jsonl").open("ab") as out:
        out.write(b'{"task_id":"cut')
    append_record(tmp_path, msgspec.structs.replace(RECORD, task_sha256="2"))

    assert set(read_records(tmp_path)) == {"1", "2"}


def test_runs_leave_out_what_is_quarantined_until_it_is_changed_or_they_are_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checker = read_checker(checker_folder())
    (tmp_path / "a.json").write_bytes(FOLDER.json)
    vacuous = json.loads(FOLDER.json) | {"id": "b"}
    (tmp_path / "b.json").write_text(json.dumps(vacuous))
    first, second = find_tasks(str(tmp_path), 1, 0, checker)
    bad = msgspec.structs.replace(RECORD, task_id="b", task_sha256=second.sha256)

    write_lists(tmp_path, [bad], ())
    kept = find_tasks(str(tmp_path), 1, 0, checker)
    told = capsys.readouterr().err
    all_of_them = find_tasks(str(tmp_path), 1, 0, checker, quarantined=True)
    (tmp_path / "b.json").write_text(json.dumps(vacuous | {"instruction": "another"}))

    assert kept == (first,)
    assert "b (vacuous | so); mend them" in told
    assert len(all_of_them) == 2
    assert len(find_tasks(str(tmp_path), 1, 0, checker)) == 2


def test_what_the_gate_says_of_a_bundled_set_holds_where_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = read_checker(checker_folder())
    monkeypatch.chdir(tmp_path)
    tasks = find_tasks("train", 1, 0, checker)
    bad = msgspec.structs.replace(RECORD, task_id=tasks[0].id, task_sha256=tasks[0].sha256)
    Path("admission-train").mkdir()

    write_lists(Path("admission-train"), [bad], ())

    assert find_tasks("train", 1, 0, checker) == tasks[1:]
    assert find_tasks("train", 1, 0, checker, quarantined=True) == tasks


def test_trying_one_task_leaves_the_others_of_its_folder_in_quarantine(tmp_path: Path) -> None:
    other = msgspec.structs.replace(RECORD, task_id="b", task_sha256="2")
    mended = msgspec.structs.replace(RECORD, is_admitted=True, task_sha256="3")
    for record in (RECORD, other):
        append_record(tmp_path, record)
        write_lists(tmp_path, [record], ())
    assert set(read_quarantine(tmp_path / QUARANTINE)) == {"1", "2"}

    write_lists(tmp_path, [mended], ())

    kept_out = set(read_quarantine(tmp_path / QUARANTINE))
    assert kept_out == {"1", "2"}, "who takes the mending back is no further"
    assert "1 of 2 tasks are admitted" in (tmp_path / "admission.md").read_text("utf-8")


@pytest.mark.parametrize(("admitted", "searched"), [("", "os"), ("os", ""), ("os", "os/a.json")])
def test_a_list_holds_for_the_folders_above_and_below(
    tmp_path: Path, admitted: str, searched: str
) -> None:
    checker = read_checker(checker_folder())
    (tmp_path / "os" / "a" / "files").mkdir(parents=True)
    (tmp_path / "os" / "a.json").write_bytes(FOLDER.json)
    (tmp_path / "os" / "a" / "files" / QUARANTINE).write_text("a file of the task")
    (task,) = find_tasks(str(tmp_path), 1, 0, checker)
    bad = msgspec.structs.replace(RECORD, task_sha256=task.sha256)
    write_lists(tmp_path / admitted, [bad], ())

    with pytest.raises(TasksError, match="quarantined"):
        find_tasks(str(tmp_path / searched), 1, 0, checker)


@pytest.mark.parametrize(
    ("admitted", "searched"), [("files", "files"), ("gold", "."), ("link", "."), (".", "link")]
)
def test_a_list_holds_whatever_its_folder_is_called_and_through_links(
    tmp_path: Path, admitted: str, searched: str
) -> None:
    tree = tmp_path / "tree"
    place = tree / admitted if admitted in ("files", "gold") else tmp_path / "elsewhere"
    place.mkdir(parents=True)
    tree.mkdir(exist_ok=True)
    if "link" in (admitted, searched):
        (tree / "link").symlink_to(place)
    (place / "a.json").write_bytes(FOLDER.json)
    bad = msgspec.structs.replace(RECORD, task_sha256=FOLDER.sha256)
    write_lists(tree / admitted, [bad], ())

    with pytest.raises(TasksError, match="quarantined"):
        find_tasks(str(tree / searched), 1, 0, read_checker(checker_folder()))


@pytest.mark.parametrize("searched", ["files", ".", "a.json"])
def test_a_list_is_looked_for_from_the_folder_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searched: str
) -> None:
    place = tmp_path / "files" if searched == "files" else tmp_path
    (tmp_path / "files").mkdir()
    (place / "a.json").write_bytes(FOLDER.json)
    monkeypatch.chdir(tmp_path)
    checker = read_checker(checker_folder())

    assert len(find_tasks(searched, 1, 0, checker)) == 1

    write_lists(place, [msgspec.structs.replace(RECORD, task_sha256=FOLDER.sha256)], ())
    with pytest.raises(TasksError, match="quarantined"):
        find_tasks(searched, 1, 0, checker)


def test_two_gates_may_write_into_one_folder(tmp_path: Path) -> None:
    writers = []
    for _ in range(3):
        writers.append(os.fork())
        if writers[-1] == 0:
            _write_often(tmp_path)

    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0] * 3
    assert set(read_quarantine(tmp_path / QUARANTINE)) == {"1"}


def _write_often(folder: Path) -> NoReturn:
    status = 1
    try:
        for _ in range(200):
            write_lists(folder, [RECORD], ())
        status = 0
    finally:
        os._exit(status)


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "admission.jsonl").mkdir()

    with pytest.raises(QuarantineError, match=r"admission.jsonl cannot be written.*--report"):
        append_record(tmp_path, RECORD)


def test_a_run_of_nothing_but_quarantined_tasks_is_refused_with_the_way_out(
    tmp_path: Path,
) -> None:
    checker = read_checker(checker_folder())
    (tmp_path / "a.json").write_bytes(FOLDER.json)
    (task,) = find_tasks(str(tmp_path), 1, 0, checker)
    write_lists(tmp_path, [msgspec.structs.replace(RECORD, task_sha256=task.sha256)], ())

    with pytest.raises(TasksError, match=r"all tasks .* quarantined: .* --quarantined"):
        find_tasks(str(tmp_path), 1, 0, checker)

    (tmp_path / QUARANTINE).write_text("no json\n")
    with pytest.raises(QuarantineError, match=rf"{QUARANTINE}:1: .*tasks admit"):
        find_tasks(str(tmp_path), 1, 0, checker)
