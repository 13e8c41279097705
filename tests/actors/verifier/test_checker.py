"""The real checker against small real desktops: every verdict, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.verifier.checker import Checker, CheckerLostError
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.messages.tasks import Task
from envs_node.policy.tasks import read_task

RESULT = "/home/user/a.txt"
MakeTask = Callable[..., Task]


def _metric(make_task: MakeTask, func: str, **evaluator: object) -> Task:
    return make_task(func=func, expected=None, **evaluator)


def _processes_of(checker: Checker) -> list[int]:
    """The zygote's descendants."""
    pid = checker.zygote_pid
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_right_file_is_a_success_with_its_evidence(checker, desktop, make_task, source):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    task = make_task()

    verdict = checker.verify(task, guest.pid, "DONE")

    assert (verdict.verdict, verdict.score, verdict.reason) == ("success", 1.0, "")
    assert [e.name for e in verdict.evidence] == ["a.txt", "gold.txt"]
    assert verdict.evidence[0].sha256 == verdict.evidence[1].sha256 == task.files[1].sha256
    assert [(e.path, e.status) for e in verdict.exchanges][-2:] == [
        ("/file", 200),
        ("/terminal", 200),
    ]
    assert (verdict.task_sha256, verdict.checker) == (task.sha256, "desktop-env 1.0.2")
    assert len(verdict.checker_sha256) == 64


@pytest.mark.parametrize("content", [b"wrong\n", None])
def test_a_wrong_or_missing_file_is_a_failure(checker, desktop, make_task, content):
    guest = desktop()
    if content is not None:
        guest.write(RESULT, content)

    verdict = checker.verify(make_task(), guest.pid, "DONE")

    assert (verdict.verdict, verdict.score) == ("failure", 0.0)


def test_a_desktop_that_is_gone_is_infra(checker, desktop, make_task):
    guest = desktop()
    guest.end()

    verdict = checker.verify(make_task(), guest.pid, "DONE")

    assert (verdict.verdict, verdict.score) == ("infra", None)
    assert "could not enter the desktop" in verdict.reason


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("broken", "POST /file was answered with 500"),
        ("cut", "POST /file got no answer: ChunkedEncodingError"),
        ("dying", "POST /file got no answer: ConnectionError"),
    ],
)
def test_a_desktop_that_fails_the_checker_is_infra(checker, desktop, make_task, mode, reason):
    guest = desktop(mode)
    guest.write(RESULT, b"right\n")

    verdict = checker.verify(make_task(), guest.pid, "DONE")

    assert (verdict.verdict, verdict.reason) == ("infra", reason)


def test_a_frozen_desktop_is_infra_at_the_deadline(checker, desktop, make_task):
    guest = desktop()
    guest.freeze()

    began = time.monotonic()
    verdict = checker.verify(make_task(), guest.pid, "DONE")

    assert (verdict.verdict, verdict.reason) == ("infra", "no verdict within 2 s")
    assert time.monotonic() - began < 4
    assert _processes_of(checker) == []


@pytest.mark.parametrize(
    ("func", "verdict", "score", "reason"),
    [
        ("raising", "failure", None, "checker raised KeyError: 'no a.txt'"),
        ("exiting", "failure", None, "checker raised SystemExit: 3"),
        ("dying", "infra", None, "the check ended without an answer"),
        ("hanging", "infra", None, "no verdict within 2 s"),
        ("forking", "success", 1.0, ""),
        ("nan", "checker_error", None, "the metric returned no finite number but a float"),
        ("none", "checker_error", None, "the metric returned no finite number but a NoneType"),
        ("seven", "success", 7.0, ""),
        ("nearly", "success", 0.9999999999923, ""),
        ("who", "success", 1.0, ""),
        ("stranger", "unsupported", None, "the checker needs the network: 127.0.0.1:6000"),
        ("forging", "failure", 0.0, ""),
        ("closing", "success", 1.0, ""),
        ("oddly_naming", "failure", None, "checker raised ValueError: ?"),
    ],
)
def test_whatever_a_metric_does_is_a_verdict(
    checker, desktop, make_task, func, verdict, score, reason
):
    guest = desktop()
    guest.write(RESULT, b"right\n")

    said = checker.verify(_metric(make_task, func), guest.pid, "DONE")

    assert (said.verdict, said.score, said.reason[: len(reason)]) == (verdict, score, reason)
    assert _processes_of(checker) == []


def test_each_verdict_has_a_fresh_cache(checker, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    task = _metric(make_task, "empty_cache")

    verdicts = [checker.verify(task, guest.pid, "DONE").verdict for _ in range(2)]

    assert verdicts == ["success", "success"]
    assert [path.name for path in checker.folder.iterdir()] == ["zygote.log"]


def test_trouble_with_a_gold_file_is_not_the_policys_failure(checker, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")

    verdict = checker.verify(make_task(func="raising_on_gold"), guest.pid, "DONE")

    assert verdict.verdict == "checker_error"
    assert verdict.reason.endswith("(a gold file)")


@pytest.mark.parametrize(
    ("said", "verdict", "reason"),
    [
        ("['a.desktop', 'b.desktop']", "success", ""),
        ("['a.desktop']", "failure", ""),
        ("(lambda: ['a.desktop', 'b.desktop'])()", "failure", "checker raised ValueError: malform"),
        ("__import__('os')._exit(0)", "failure", "checker raised ValueError: malformed node"),
    ],
)
def test_what_a_desktop_says_and_osworld_evaluates_is_read_and_never_run(
    checker, desktop, make_task, said, verdict, reason
):
    result = {"type": "vm_command_line", "command": ["echo", said]}
    rules = {"type": "rule", "rules": {"expected": ["b.desktop", "a.desktop"]}}
    task = make_task(func="check_gnome_favorite_apps", result=result, expected=rules)

    judged = checker.verify(task, desktop().pid, "DONE")

    assert (judged.verdict, judged.reason[: len(reason)]) == (verdict, reason)


def test_giving_up_is_a_failure_unless_the_task_is_infeasible(checker, make_task):
    infeasible = make_task(func="infeasible", result=None, expected=None)

    gave_up = checker.verify(make_task(), 0, "FAIL")
    right, wrong = checker.verify(infeasible, 0, "FAIL"), checker.verify(infeasible, 0, "DONE")

    assert (gave_up.verdict, gave_up.score) == ("failure", 0.0)
    assert (right.verdict, right.score) == ("infeasible", 1.0)
    assert (wrong.verdict, wrong.score) == ("infeasible", 0.0)


def test_a_failed_step_before_the_check_is_infra(checker, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    steps = [{"type": "open", "parameters": {"path": RESULT}}]

    verdict = checker.verify(make_task(postconfig=steps), guest.pid, "DONE")

    assert verdict.verdict == "infra"
    assert verdict.reason == (
        "POST /setup/open_file, a step before the check, was answered with 400"
    )


def test_steps_before_the_check_run_and_a_closed_window_is_an_answer(checker, desktop, make_task):
    guest = desktop()
    guest.write("home/user/draft", b"right\n")
    steps = [
        {"type": "activate_window", "parameters": {"window_name": "closed by the policy"}},
        {"type": "sleep", "parameters": {"seconds": 0.1}},
        {"type": "execute", "parameters": {"command": "cp home/user/draft home/user/a.txt"}},
    ]

    verdict = checker.verify(make_task(postconfig=steps), guest.pid, "DONE")

    assert (verdict.verdict, verdict.score) == ("success", 1.0)


@pytest.mark.parametrize(("kind", "where"), [("upload_file", "local_path"), ("download", "url")])
def test_steps_before_the_check_may_send_the_tasks_files(checker, desktop, make_task, kind, where):
    guest = desktop()
    guest.write(RESULT, b"wrong\n")
    name = "files/a.txt" if kind == "upload_file" else "bundle://files/a.txt"
    step = {"type": kind, "parameters": {"files": [{where: name, "path": RESULT}]}}

    verdict = checker.verify(make_task(postconfig=[step]), guest.pid, "DONE")

    assert (verdict.verdict, verdict.reason) == ("success", "")


def test_lists_are_joined_as_osworld_joins_them(checker, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    missing = {"type": "vm_file", "path": "/none", "dest": "none"}
    there = {"type": "vm_file", "path": RESULT, "dest": "a.txt"}
    gold = {"type": "cloud_file", "path": "bundle://gold/a.txt", "dest": "gold.txt"}
    lists = {
        "func": ["compare_text_file"] * 2,
        "result": [missing, there],
        "expected": [gold] * 2,
    }

    verdicts = [
        checker.verify(make_task(**lists, conj=conj), guest.pid, "DONE").verdict
        for conj in ("and", "or")
    ]

    assert verdicts == ["failure", "success"]


def test_a_task_that_needs_what_is_not_installed_is_unsupported_by_name(checker, make_task):
    task = make_task(func="compare_audios")

    verdict = checker.verify(task, 0, "DONE")

    assert verdict.verdict == "unsupported"
    assert verdict.reason == "metric:compare_audios needs librosa, which is not installed"


def test_a_killed_zygote_is_started_again(source, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    checker = Checker(source)
    try:
        checker.start()
        os.kill(checker.zygote_pid, signal.SIGKILL)
        verdicts = [checker.verify(make_task(), guest.pid, "DONE").verdict for _ in range(3)]
    finally:
        checker.close()

    assert verdicts[-1] == "success"
    assert set(verdicts) <= {"infra", "success"}
    assert checker.starts == 2


def test_a_checker_that_cannot_write_is_infra_and_goes_on_when_it_can(source, desktop, make_task):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    checker = Checker(source)
    try:
        checker.start()
        aside = checker.folder.rename(checker.folder.with_name(f"{checker.folder.name}-aside"))
        broken = checker.verify(make_task(), guest.pid, "DONE")
        aside.rename(checker.folder)
        mended = checker.verify(make_task(), guest.pid, "DONE")
    finally:
        checker.close()

    assert broken.verdict == "infra"
    assert "files cannot be laid out" in broken.reason
    assert mended.verdict == "success"


def test_a_closed_checker_leaves_no_process_and_no_folder(source):
    checker = Checker(source)
    checker.start()
    pid, folder = checker.zygote_pid, checker.folder

    checker.close()
    checker.close()

    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_zygote_does_not_survive_its_owner(tmp_path: Path):
    script = (
        "import os\n"
        "from envs_node.actors.verifier.checker import Checker\n"
        "from envs_node.actors.verifier.vocabulary import read_checker\n"
        "from envs_node.deploy.checker import checker_folder\n"
        "checker = Checker(read_checker(checker_folder()))\n"
        "checker.start()\n"
        "print(checker.zygote_pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )

    owner = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )

    deadline = time.monotonic() + 5
    while _is_running(int(owner.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_running(int(owner.stdout))
    assert list(tmp_path.iterdir()) == []


def test_a_checker_that_cannot_start_says_so(source: CheckerSource, make_task):
    broken = msgspec.structs.replace(source, python=Path("/bin/false"))
    checker = Checker(broken)

    try:
        with pytest.raises(CheckerLostError, match="has died"):
            checker.start()
        verdict = checker.verify(make_task(), os.getpid(), "DONE")
    finally:
        checker.close()

    assert verdict.verdict == "infra"


def test_the_zygote_imports_nothing_of_ours():
    for name in ("zygote.py", "judge.py", "jail.py"):
        text = (Path(__file__).parents[3] / "actors" / "verifier" / name).read_text("utf-8")
        assert "import envs_node" not in text
        assert "from envs_node" not in text


def test_a_public_task_is_judged_as_it_is(checker, desktop, vocabulary):
    name = "e0df059f-28a6-4169-924f-b9623e7184cc.json"
    data = (Path(__file__).parents[2] / "golden" / "osworld" / name).read_bytes()
    task = read_task(data, {}, vocabulary, file=name)
    guest = desktop()

    before = checker.verify(task, guest.pid, "DONE")
    (guest.folder / "Desktop" / "todo_list_Jan_2").mkdir(parents=True)
    after = checker.verify(task, guest.pid, "DONE")

    assert (before.verdict, after.verdict) == ("failure", "success")
