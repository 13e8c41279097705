"""Tasks that are broken on purpose: each has its class, harms nothing, and the next is judged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.tasks import TaskError, Vocabulary, read_task
from tests.actors.verifier.conftest import Guest

BROKEN = Path(__file__).parent / "broken"
RESULT = "/home/user/a.txt"
REFUSED = {
    "colliding-destinations": "gold.txt",
    "unknown-metric": "'compare_tabel' is no metric",
}
"""Before any desktop starts, and why."""
AT_RESET = {"failing-set-up": "x.docx", "failing-step": "none.docx"}
"""When its desktop is set up, and why."""
JUDGED = {
    "vacuous": ("success", 1.0, ""),
    "throws": ("failure", None, "checker raised KeyError: 'no a.txt'"),
    "hangs": ("infra", None, "no verdict within 2 s"),
    "exits": ("failure", None, "checker raised SystemExit: 3"),
    "dies": ("infra", None, "the check ended without an answer"),
    "forks": ("success", 1.0, ""),
    "fork-bomb": ("infra", None, "no verdict within 2 s"),
    "returns-nan": ("checker_error", None, "the metric returned no finite number but a float"),
    "returns-none": ("checker_error", None, "the metric returned no finite number but a NoneType"),
    "returns-seven": ("success", 7.0, ""),
}
"""By the checker: class, score, and how the reason begins. A fork is no fault; 7 reaches 1."""
PAYLOADS = {
    "writes outside": "[open({mark!r}, 'w')]",
    "reads secrets": "[open('/etc/shadow').read()]",
    "reads its owner": "[open('/proc/1/root' + {mark!r}).read()]",
    "reaches the network": "[__import__('socket').create_connection(('127.0.0.1', {port}), 1)]",
    "reaches it by a program": "[__import__('subprocess').run(['bash', '-c', "
    "'echo > /dev/tcp/127.0.0.1/{port}'], check=True)]",
    "kills its owner": "[__import__('os').kill({zygote}, 9)]",
    "kills all": "[__import__('os').kill(-1, 9), __import__('os').kill(1, 9)] and []",
    "alters the checker": "[open(__import__('desktop_env').__file__, 'a').write('x')]",
    "mounts": "[__import__('subprocess').run(['mount', '-t', 'tmpfs', 'x', '/tmp'], check=True)]",
}


@pytest.fixture(scope="module")
def read(vocabulary: Vocabulary) -> Callable[[str], Task]:
    """Read a broken task."""

    def read(name: str) -> Task:
        data = (BROKEN / f"{name}.json").read_bytes()
        return read_task(data, {"gold/a.txt": b"right\n"}, vocabulary, file=f"{name}.json")

    return read


@pytest.fixture
def guest(desktop: Callable[[str], Guest]) -> Guest:
    """A desktop with the right file on it."""
    guest = desktop("sound")
    guest.write(RESULT, b"right\n")
    return guest


@pytest.fixture
def port() -> Iterator[int]:
    """A service of the host, which no check may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _left_by(checker: Checker) -> tuple[list[str], list[str], int]:
    """What a verdict left: the zygote's children, files in the checker's folder, our threads."""
    pid = checker.zygote_pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return children, [path.name for path in checker.folder.iterdir()], threading.active_count()


def _status(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _next_is_right(checker: Checker, guest: Guest, make_task: Any) -> tuple[str, str]:
    """What the next task is judged when it is done, and when it is not."""
    right: Verdict = checker.verify(make_task(), guest.pid, "DONE")
    guest.write(RESULT, b"wrong\n")
    return right.verdict, checker.verify(make_task(), guest.pid, "DONE").verdict


def test_every_broken_task_is_tried():
    names = {path.stem for path in BROKEN.glob("*.json")}

    assert names == {*REFUSED, *AT_RESET, *JUDGED, "imports-a-payload"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_seen_in_a_task_is_refused_before_a_desktop_starts(read, name):
    with pytest.raises(TaskError, match=REFUSED[name]):
        read(name)


@pytest.mark.parametrize("name", JUDGED)
def test_a_broken_task_has_its_class_and_harms_nothing(checker, guest, make_task, read, name):
    starts, threads = checker.starts, threading.active_count()

    said = checker.verify(read(name), guest.pid, "DONE")

    verdict, score, reason = JUDGED[name]
    assert (said.verdict, said.score, said.reason[: len(reason)]) == (verdict, score, reason)
    *left, alive = _left_by(checker)
    assert left == [[], ["zygote.log"]]
    assert alive <= threads, "a thread of an earlier test may have ended meanwhile"
    assert _next_is_right(checker, guest, make_task) == ("success", "failure")
    assert checker.starts == starts, "the same zygote judges on"


def test_a_payload_is_run_where_a_metric_imports_it(checker, guest, read):
    guest.write(RESULT, b"[1].clear() or []")

    assert checker.verify(read("imports-a-payload"), guest.pid, "DONE").verdict == "success"


@pytest.mark.parametrize("name", PAYLOADS)
def test_what_a_desktop_says_and_a_metric_imports_harms_nothing(
    checker, guest, make_task, read, port, tmp_path_factory, name
):
    mark = tmp_path_factory.mktemp("host") / "mark"
    if name == "reads its owner":
        mark.write_text("[]")
    payload = PAYLOADS[name].format(mark=str(mark), port=port, zygote=checker.zygote_pid)
    guest.write(RESULT, payload.encode())
    starts = checker.starts

    said = checker.verify(read("imports-a-payload"), guest.pid, "DONE")

    guest.write(RESULT, b"right\n")
    assert said.verdict != "success" or name == "kills all"
    assert mark.exists() == (name == "reads its owner")
    assert _left_by(checker)[:2] == ([], ["zygote.log"])
    assert _next_is_right(checker, guest, make_task) == ("success", "failure")
    assert checker.starts == starts


def test_the_process_that_judges_cannot_change_the_checker(checker, guest, make_task):
    said = checker.verify(make_task(func="tampering", expected=None), guest.pid, "DONE")

    assert (said.verdict, said.reason) == ("success", "")


def test_a_fork_bomb_is_bounded_while_it_goes_off(checker, guest, read):
    most, is_over = 0, threading.Event()

    def count() -> None:
        nonlocal most
        while not is_over.wait(0.05):
            statuses = [_status(path) for path in Path("/proc").glob("[0-9]*/status")]
            most = max(most, sum(f"\nUid:\t{uid}\t" in status for status in statuses))

    uid = checker._uid
    counter = threading.Thread(target=count)
    counter.start()
    try:
        checker.verify(read("fork-bomb"), guest.pid, "DONE")
    finally:
        is_over.set()
        counter.join()

    assert 1 < most <= 128


@pytest.mark.parametrize("name", AT_RESET)
def test_a_step_that_fails_fails_the_set_up_and_says_which(read, name):
    task = read(name)
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            with pytest.raises(SetupFailedError, match=f"set-up step 0 .*{AT_RESET[name]}"):
                sandbox.reset(task)
        finally:
            sandbox.close()
