"""Every type of OSWorld's set-up steps, taken on real desktops."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.setup import check_setup
from envs_node.policy.task_files import stored_name
from tests.actors.desktop.looking import inside
from tests.fakes_desktop import make_task

HOME = "/home/user"
URL = "https://hub.example.org/a/tea.txt"
DEVTOOLS: list[tuple[str, dict[str, Any]]] = [
    ("launch", {"command": ["google-chrome", "--remote-debugging-port=1337"]}),
    ("launch", {"command": ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"]}),
]


def run(sandbox: Sandbox, *command: str) -> str:
    """What a command inside says."""
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=60)
    answer = json.loads(guest.post("/setup/execute", {"command": list(command)}))
    assert answer["returncode"] == 0, answer
    return str(answer["output"])


def refusal(sandbox: Sandbox, *steps: tuple[str, dict[str, Any]]) -> SetupFailedError:
    with pytest.raises(SetupFailedError) as caught:
        sandbox.reset(make_task(*steps))
    return caught.value


def test_files_are_laid_from_the_task_wherever_its_json_says_they_come_from(sandbox: Sandbox):
    files = [{"url": URL, "path": f"{HOME}/deep/tea.txt"}, {"url": URL, "path": "setup.txt"}]
    sent = [{"local_path": "files/oats.txt", "path": f"{HOME}/oats.txt"}]

    sandbox.reset(
        make_task(
            ("download", {"files": files}),
            ("upload_file", {"files": sent}),
            ("execute", {"command": ["cat", f"{HOME}/setup.txt"]}),
            files={stored_name(URL, "files"): b"tea", "files/oats.txt": b"oats"},
        )
    )

    assert run(sandbox, "cat", f"{HOME}/deep/tea.txt", f"{HOME}/oats.txt") == "teaoats"


def test_windows_and_commands_do_what_their_steps_say(sandbox: Sandbox):
    again = "echo x >> ~/tries; wc -l < ~/tries"
    marked = {"window_exists": "inbox", "command_success": f"test -e {HOME}/tries"}

    sandbox.reset(
        make_task(
            ("command", {"command": again, "shell": True, "until": {"stdout": "3"}}),
            ("launch", {"command": ["xterm", "-T", "inbox"]}),
            ("launch", {"command": ["xterm", "-T", "notes"]}),
            (
                "execute_with_verification",
                {"command": ["true"], "verification": marked, "max_wait_time": 10},
            ),
            ("activate_window", {"window_name": "inbox"}),
            ("close_window", {"window_name": "notes", "strict": True}),
            ("open", {"path": f"{HOME}/tries"}),
            ("sleep", {"seconds": 0.1}),
        )
    )

    assert run(sandbox, "cat", f"{HOME}/tries") == "x\n" * 3
    titles = [window.title for window in sandbox.windows()]
    assert "inbox" in titles
    assert "notes" not in titles
    assert any("tries" in title for title in titles)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (("execute", {"command": ["false"]}), "(execute): ['false'] ended with 1"),
        (("activate_window", {"window_name": "none"}), "window none is not found"),
        (("change_wallpaper", {"path": f"{HOME}/none.png"}), "File not found"),
        (
            ("execute_with_verification",
             {"command": ["true"], "verification": {"window_exists": "none"},
              "max_wait_time": 0.2, "check_interval": 0.1}),
            "Verification failed",
        ),
    ],
)  # fmt: skip
def test_a_step_that_fails_fails_the_set_up_and_is_named(
    sandbox: Sandbox, step: tuple[str, dict[str, Any]], said: str
):
    error = refusal(sandbox, ("execute", {"command": ["true"]}), step)

    assert error.step == 1
    assert error.kind == step[0]
    assert said in str(error)


def test_a_wallpaper_is_set_in_gnomes_settings(sandbox: Sandbox):
    sent = [{"local_path": "files/a.png", "path": f"{HOME}/a.png"}]

    sandbox.reset(
        make_task(
            ("upload_file", {"files": sent}),
            ("change_wallpaper", {"path": f"{HOME}/a.png"}),
            files={"files/a.png": b"\x89PNG"},
        )
    )

    schema = "org.gnome.desktop.background"
    assert run(sandbox, "gsettings", "get", schema, "picture-uri") == f"'file://{HOME}/a.png'\n"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_chrome_has_the_history_and_the_tabs_that_its_steps_give_it(sandbox: Sandbox):
    pages = [f"{HOME}/tea.html", f"{HOME}/oats.html"]
    sent = [{"local_path": f"files/{Path(page).name}", "path": page} for page in pages]
    visit = {"url": "https://a.org/", "title": "Oats", "visit_time_from_now_in_seconds": 3600}
    urls = [*(f"file://{page}" for page in pages), "http://localhost:8000/tea.html"]
    serve = ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"]

    sandbox.reset(
        make_task(
            ("upload_file", {"files": sent}),
            ("update_browse_history", {"history": [visit]}),
            ("launch", {"command": serve}),
            *DEVTOOLS,
            ("chrome_open_tabs", {"urls_to_open": urls}),
            ("chrome_close_tabs", {"urls_to_close": [f"file://{pages[1]}"]}),
            files={
                "files/tea.html": b"<title>Tea</title>", "files/oats.html": b"<title>Oats</title>"
            },
        )
    )  # fmt: skip

    listed = json.loads(run(sandbox, "curl", "-s", "http://localhost:9222/json/list"))
    tabs = {tab["url"]: tab["title"] for tab in listed if tab["type"] == "page"}
    assert tabs == {urls[0]: "Tea", urls[2]: "Tea"}
    rows = _history(sandbox)
    (told,) = [row for row in rows if row[0] == "https://a.org/"]
    assert told[1] == "Oats"
    assert abs(time.time() - 3600 - (told[2] / 1e6 - 11_644_473_600)) < 120


def _history(sandbox: Sandbox) -> list[list[Any]]:
    """Address, title and time of each visit, of a copy: Chrome has the file locked."""
    code = (
        "import json, pathlib, shutil, sqlite3\n"
        "folder = pathlib.Path.home() / '.config/google-chrome/Default'\n"
        "shutil.copy(folder / 'History', '/tmp/history')\n"
        "rows = sqlite3.connect('/tmp/history').execute('select urls.url, title, visit_time '\n"
        "    'from visits join urls on urls.id = visits.url')\n"
        "print(json.dumps(list(rows)))\n"
    )
    rows: list[list[Any]] = json.loads(run(sandbox, "python3", "-c", code))
    return rows


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("chrome_open_tabs", {"urls_to_open": ["https://a.example.org/"]}, "net::ERR_"),
        ("chrome_open_tabs", {"urls_to_open": ["file:///none.html"]}, "net::ERR_FILE_NOT_FOUND"),
        ("chrome_close_tabs", {"urls_to_close": ["file:///none.html"]}, "no tab shows"),
    ],
)
def test_a_tab_that_cannot_be_opened_or_closed_fails_the_set_up(
    sandbox: Sandbox, kind: str, parameters: dict[str, Any], said: str
):
    error = refusal(sandbox, *DEVTOOLS, (kind, parameters))

    assert error.kind == kind
    assert said in str(error)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("googledrive", "signs in to a Google account"),
        ("login", "signs in to somebody's account"),
        ("proxy", "through somebody's proxy"),
        ("act", "has never written it"),
        ("replay", "has never written it"),
        ("tidy_desktop", "has never written it"),
    ],
)
def test_what_is_never_run_is_refused_by_name(kind: str, said: str):
    with pytest.raises(SetupFailedError, match=rf"\({kind}\): .*{said}"):
        check_setup(make_task((kind, {})))
