"""Nothing that OSWorld's code swallows hides a desktop that did not answer."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import CheckerSource
from tests.actors.verifier import faulty
from tests.actors.verifier.conftest import OVERLAID, OVERLAY

LINE = {"type": "vm_command_line", "command": "ls"}
VLC = {"type": "vlc_playing_info", "dest": "status.xml"}
WANTED = {"type": "rule", "rules": {"expected": "a"}}


class Faulty:
    """A desktop with one fault."""

    def __init__(self, fault: str, *more: str) -> None:
        apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "-U", "-r"]
        command = [*apart, sys.executable, faulty.__file__, fault, *more]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
        assert self._process.stdout.readline() == b"ready\n", "the desktop did not come up"
        self.pid = self._process.pid

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def faulty_desktop() -> Iterator[Callable[..., Faulty]]:
    """Start desktops with a fault; they end with the test."""
    made: list[Faulty] = []

    def start(*given: str) -> Faulty:
        made.append(Faulty(*given))
        return made[-1]

    yield start
    for desktop in made:
        desktop.end()


@pytest.fixture(scope="module")
def hasty(source: CheckerSource) -> Iterator[Checker]:
    """A checker that does not wait long for an answer."""
    checker = Checker(source, read_s=0.5, overlay=dict.fromkeys(OVERLAID, OVERLAY))
    checker.start()
    yield checker
    checker.close()


@pytest.mark.parametrize("fault", [*faulty.FAULTS[:3], "truncating", *faulty.LATE_FAULTS])
def test_a_desktop_with_a_fault_is_infra_whatever_the_getter_makes_of_it(
    hasty, faulty_desktop, make_task, fault
):
    guest = faulty_desktop(fault)

    verdict = hasty.verify(make_task(), guest.pid, "DONE")

    assert (verdict.verdict, verdict.score) == ("infra", None)


def test_a_slow_desktop_is_judged_as_a_quick_one(hasty, faulty_desktop, make_task):
    slow, empty = faulty_desktop("slow", "0.3"), faulty_desktop("empty")

    verdicts = [hasty.verify(make_task(), guest.pid, "DONE") for guest in (slow, empty)]

    assert [verdict.verdict for verdict in verdicts] == ["failure", "failure"]
    assert verdicts[0].wall_ms > 2 * 3 * 300, "three answers, and each waits twice"


def test_a_desktop_that_froze_ends_the_verdict_at_the_first_time_out(
    hasty, faulty_desktop, make_task
):
    guest = faulty_desktop("late-frozen")
    many = [{"type": "execute", "parameters": {"command": "true"}}] * 20

    began = time.monotonic()
    verdict = hasty.verify(make_task(postconfig=many), guest.pid, "DONE")

    assert (verdict.verdict, verdict.reason) == (
        "infra",
        "GET /terminal got no answer: ReadTimeout",
    )
    assert len(verdict.exchanges) == 2
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("fault", ["late-500", "late-truncating", "late-dead", "late-frozen"])
def test_a_metric_that_takes_no_answer_for_the_right_one_is_not_believed(
    hasty, faulty_desktop, make_task, fault
):
    guest = faulty_desktop(fault)

    verdict = hasty.verify(make_task(func="hiding"), guest.pid, "DONE")

    assert verdict.verdict == "infra"


@pytest.mark.parametrize("library", ["urllib", "http.client", "socket"])
def test_a_connection_past_the_guard_is_refused_and_told(hasty, faulty_desktop, make_task, library):
    guest = faulty_desktop("empty")
    task = make_task(func="past_requests", result=LINE, expected=None, options={"library": library})

    verdict = hasty.verify(task, guest.pid, "DONE")

    assert verdict.verdict == "unsupported"
    assert verdict.reason == "the checker connects to 127.0.0.1:5000 past its guard"


def test_an_application_that_is_closed_is_no_fault_of_the_desktops(
    hasty, faulty_desktop, make_task
):
    guest = faulty_desktop("empty")

    verdict = hasty.verify(
        make_task(func="is_vlc_playing", result=VLC, expected=WANTED), guest.pid, "DONE"
    )

    assert verdict.verdict == "failure"
    assert "checker raised ConnectionError" in verdict.reason
    assert [e.error for e in verdict.exchanges if e.path == "/requests/status.xml"] == ["closed"]


@pytest.mark.parametrize(
    ("path", "status", "body", "headers", "fault"),
    [
        ("/execute", 200, b'{"output": ""}', {"Content-Length": "14"}, ""),
        (
            "/execute",
            200,
            b"[" * 99999,
            {"Content-Length": "99999"},
            "was answered with broken JSON",
        ),
        ("/file", 200, b"\xff{", {"Content-Length": "2"}, ""),
        ("/file", 404, b"{", {"Content-Length": "1"}, ""),
        ("/file", 200, b"half", {}, "was answered without a length"),
        ("/file", 200, b"half", {"Transfer-Encoding": "chunked"}, ""),
        ("/file", 401, b"", {}, "was answered with 401"),
        ("/file", 302, b"", {}, "was answered with 302"),
        ("/file", 503, b"", {}, "was answered with 503"),
        ("/execute", 200, b'{"output": ', {"Content-Length": "11"}, "was answered with broken"),
        ("/execute", 200, b"{}", {"Content-Length": "2"}, "was answered without 'output'"),
        ("/accessibility", 200, b"[]", {"Content-Length": "2"}, "was answered without 'AT'"),
    ],
)
def test_what_is_no_answer_is_told(guards, path, status, body, headers, fault):
    answer = types.SimpleNamespace(status_code=status, content=body, headers=headers)

    assert guards._fault(path, answer, is_server=True).startswith(fault)
    assert bool(fault) == bool(guards._fault(path, answer, is_server=True))


@pytest.mark.parametrize(
    ("said", "error", "lost"),
    [
        ("connect ECONNREFUSED 127.0.0.1:9222", "closed", ""),
        ("Timeout 30000ms exceeded", "Error", "CDP / got no answer: Error"),
    ],
)
def test_a_browser_that_does_not_answer_is_told_from_one_that_is_closed(guards, said, error, lost):
    guard, browser = guards.Guard("", 1.0), _playwright(said)
    guard._watch_browsers(browser)

    with pytest.raises((browser.Error, guards.LostError)):
        browser.BrowserType().connect_over_cdp("http://127.0.0.1:9222")

    assert [row["error"] for row in guard.exchanges] == [error]
    assert guard.lost == lost


def test_the_installed_checker_reaches_desktops_by_nothing_else(source: CheckerSource):
    """Every library that can open a connection is guarded, or is used where it cannot matter."""
    site = next(source.python.parents[1].glob("lib/python3*/site-packages/desktop_env"))
    found = set()
    for part in ("evaluators", "controllers"):
        for path in sorted((site / part).rglob("*.py")):
            found |= {(name, path.stem) for name in _imported(ast.parse(path.read_bytes()))}
    doors = {"requests", "playwright", "urllib.request", "http", "socket", "ftplib", "smtplib"}
    doors |= {"urllib3", "aiohttp", "httpx", "websocket", "websockets", "paramiko", "subprocess"}

    used = {name for name, _ in found} & doors

    assert used == {"requests", "playwright", "urllib.request", "subprocess"}
    assert {stem for name, stem in found if name == "subprocess"} == {"docs", "vlc"}
    assert "playwright" in source.absent, "its driver is a process: see `_watch_browsers`"


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name if alias.name == "urllib.request" else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def _playwright(said: str) -> Any:
    class Error(Exception):
        pass

    class BrowserType:
        def connect_over_cdp(self, _: str) -> None:
            raise Error(said)

    return types.SimpleNamespace(Error=Error, BrowserType=BrowserType)


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The guard's module, beside a stand-in for `requests`, which only the checker has."""

    class Session:
        request = None

    stand_in = types.ModuleType("requests")
    vars(stand_in).update(
        Session=Session, exceptions=types.SimpleNamespace(ConnectionError=OSError)
    )
    monkeypatch.setitem(sys.modules, "requests", stand_in)
    path = Path(OVERLAY).parents[3] / "actors" / "verifier" / "guard.py"
    spec = importlib.util.spec_from_file_location("guard", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
