"""OSWorld's in-guest interface: its answers, its error codes, and what several ask at once."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from envs_node.actors.desktop.guest.server import handler_for
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest, GuestRefusedError
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Move
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import open_task

SHEET = (
    "soffice",
    "--norestore",
    "--nologo",
    "--calc",
    "--infilter=CSV:44,34,76",
    "/home/user/sums.csv",
)
NOTES = {"notes.txt": b"milk\n"}
_STATE = "{https://accessibility.ubuntu.example.org/ns/state}"
_COMPONENT = "{https://accessibility.ubuntu.example.org/ns/component}"


@pytest.fixture(scope="module")
def desktop(launcher: Launcher) -> Iterator[Sandbox]:
    """One desktop with a mousepad, for all that changes nothing."""
    sandbox = Sandbox(launcher)
    sandbox.reset(open_task("mousepad", "/home/user/notes.txt", files=NOTES))
    yield sandbox
    sandbox.close()


@pytest.fixture
def guest(desktop: Sandbox) -> Guest:
    """A client of its server."""
    return Guest(inside(desktop, SOCKET_PATH), timeout_s=60)


def answer_of(guest: Guest, endpoint: str, **body: Any) -> Any:
    return json.loads(guest.post(endpoint, body))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/execute", None, 405),
        ("POST", "/screenshot", {}, 405),
        ("POST", "/execute", {"command": ["/nonexistent"]}, 500),
        ("POST", "/execute", {"command": 7}, 500),
        ("POST", "/execute", {"command": "'"}, 500),
        ("POST", "/run_python", {}, 400),
        ("POST", "/run_python", {"code": 7}, 400),
        ("POST", "/run_bash_script", {"script": ""}, 400),
        ("POST", "/run_bash_script", {"script": "true", "timeout": "soon"}, 500),
        ("POST", "/file", {}, 400),
        ("POST", "/file", {"file_path": "/nonexistent"}, 404),
        ("POST", "/file", {"file_path": "/home/user/\0"}, 404),
        ("POST", "/list_directory", {"path": "/nonexistent"}, 400),
        ("POST", "/list_directory", {"path": 3}, 400),
        ("POST", "/window_size", {}, 400),
        ("POST", "/window_size", {"app_class_name": "nobody"}, 500),
        ("POST", "/setup/upload", {"file_path": "/home/user/x"}, 400),
        ("POST", "/setup/upload", {"file_path": "/proc/nowhere/x", "file_data": "x"}, 500),
        ("POST", "/setup/open_file", {"path": "/nonexistent"}, 404),
        ("POST", "/setup/activate_window", {"window_name": "nobody"}, 404),
        ("POST", "/setup/close_window", {}, 400),
        ("POST", "/setup/change_wallpaper", {"path": "/nonexistent.png"}, 404),
        ("POST", "/setup/download_file", {"path": "/tmp/x", "url": "file:///etc/passwd"}, 400),
        ("POST", "/setup/download_file", {"path": "/tmp/x", "url": "http://127.0.0.1:1/x"}, 500),
        ("POST", "/end_recording", {}, 400),
        ("POST", "/execute", [1], 400),
    ],
)
def test_what_cannot_be_done_has_the_status_that_osworld_gives(
    guest: Guest, method: str, path: str, body: Any, status: int
) -> None:
    def ask() -> bytes:
        return guest.get(path) if method == "GET" else guest.post(path, body)

    with pytest.raises(GuestRefusedError) as refusal:
        ask()

    assert refusal.value.status == status


def test_the_screen_the_pointer_and_the_windows_are_told(desktop: Sandbox, guest: Guest) -> None:
    desktop.act(Move(x=321, y=123))

    assert json.loads(guest.get("/cursor_position")) == [321, 123]
    assert answer_of(guest, "/screen_size") == {"width": 1280, "height": 720}
    assert set(answer_of(guest, "/window_size", app_class_name="Mousepad")) == {"width", "height"}
    assert guest.get("/platform") == b"Linux"
    with Image.open(BytesIO(guest.get("/screenshot"))) as picture:
        assert picture.size == (1280, 720)
        assert picture.getpixel((321, 123)) == (255, 255, 255), "the tip of the pointer"


def test_a_desktop_is_a_folder_of_files(guest: Guest) -> None:
    guest.upload("/home/user/made/at once.txt", b"\0\xff")
    tree = answer_of(guest, "/list_directory", path="/home/user/made")

    assert tree["directory_tree"]["children"] == [{"type": "file", "name": "at once.txt"}]
    assert guest.post("/file", {"file_path": "~/made/at once.txt"}) == b"\0\xff"


def test_a_command_that_outlives_its_time_is_ended_with_all_it_started(guest: Guest) -> None:
    """What stays in the background holds the pipe open, for which a plain wait has no end."""
    script = "sleep 987 & echo begun; sleep 987"
    began = time.monotonic()

    answer = answer_of(guest, "/run_bash_script", script=script, timeout=1)

    assert answer["status"] == "error"
    assert time.monotonic() - began < 20
    left = answer_of(guest, "/execute", command=["pgrep", "-fx", "sleep 987"])
    assert left["output"] == ""


def test_a_verification_passes_or_says_that_it_did_not(guest: Guest) -> None:
    passed = answer_of(
        guest,
        "/execute_with_verification",
        command=["true"],
        verification={"window_exists": "NOTES.TXT", "command_success": "test -d /home/user"},
    )
    with pytest.raises(GuestRefusedError, match="verification_failed") as refusal:
        guest.post(
            "/setup/execute_with_verification",
            {
                "command": ["true"],
                "verification": {"window_exists": "nobody"},
                "max_wait_time": 0.3,
                "check_interval": 0.1,
            },
        )

    assert passed["verification"] == "passed"
    assert passed["returncode"] == 0
    assert refusal.value.status == 500


def test_the_accessibility_tree_has_osworlds_names(guest: Guest) -> None:
    root = ElementTree.fromstring(json.loads(guest.get("/accessibility"))["AT"])

    application = root.find("application[@name='mousepad']")
    assert root.tag == "desktop-frame"
    assert application is not None
    texts = [element.text for element in application.iter("text")]
    assert "milk\n" in texts
    menu = application.find(".//menu[@name='File']")
    assert menu is not None
    assert menu.get(f"{_STATE}visible") == "true"
    shown = [e for e in application.iter() if e.get(f"{_COMPONENT}screencoord")]
    assert shown


def test_thirty_two_who_ask_at_once_each_get_their_own_answer(guest: Guest) -> None:
    def ask(number: int) -> tuple[int, str, int]:
        answer = answer_of(guest, "/execute", command=["echo", str(number)])
        picture = len(guest.get("/screenshot")) if number % 4 == 0 else 1
        return number, answer["output"], picture

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, range(64)))

    assert [output for _, output, _ in answers] == [f"{number}\n" for number in range(64)]
    assert all(size > 0 for _, _, size in answers)


def test_a_recording_is_made_once_at_a_time_and_can_be_played(guest: Guest, tmp_path: Path) -> None:
    assert answer_of(guest, "/start_recording")["status"] == "success"
    with pytest.raises(GuestRefusedError) as refusal:
        guest.post("/start_recording", {})
    film = guest.post("/end_recording", {})

    (tmp_path / "film.mp4").write_bytes(film)
    probe = ["ffprobe", "-v", "error", "-show_entries", "stream=width,height,codec_name"]
    shown = subprocess.run(
        [*probe, "-of", "csv=p=0", tmp_path / "film.mp4"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert refusal.value.status == 400
    assert shown.stdout.strip() == "h264,1280,720"


def test_an_opened_file_is_in_the_window_in_front(sandbox: Sandbox) -> None:
    sandbox.reset(open_task("xterm", files={"list.txt": b"eggs\n"}))
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=90)

    guest.post("/setup/open_file", {"path": "~/list.txt"})

    assert wait_until(lambda: "list.txt" in (sandbox.observe().signature.focus))


def test_beyond_loopback_the_server_wants_a_token(desktop: Sandbox) -> None:
    with pytest.raises(ValueError, match="ENVS_GUEST_TOKEN"):
        handler_for("0.0.0.0", "")
    assert handler_for("127.0.0.1", "").token == ""
    # A second server in the same desktop, on an address of its own.
    server = (
        "ENVS_GUEST_HOST=127.0.0.9 ENVS_GUEST_TOKEN=secret python3 -E -c '"
        "from envs_node.actors.desktop.guest import server; server.PORT = 5009; "
        'server.SOCKET_PATH = "/tmp/second.sock"; server.main()\' >/dev/null 2>&1 &'
    )
    shell(desktop, server)
    assert wait_until(lambda: inside(desktop, "/tmp/second.sock").exists())
    ask = "curl -s -o /dev/null -w %{http_code} http://127.0.0.9:5009/platform "
    if "not found" in shell(desktop, "curl --version"):
        pytest.fail("the test needs curl")

    assert shell(desktop, ask) == "401"
    assert shell(desktop, f"{ask} -H 'Authorization: Bearer wrong'") == "401"
    assert shell(desktop, f"{ask} -H 'Authorization: Bearer secret'") == "200"


def test_a_request_without_a_known_length_is_refused_and_the_server_goes_on(
    desktop: Sandbox, guest: Guest
) -> None:
    """A stranger's nonsense ends its own connection alone."""
    import socket

    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(inside(desktop, SOCKET_PATH)))
        stranger.sendall(b"POST /execute HTTP/1.1\r\nContent-Length: -5\r\n\r\n")
        answer = http.client.HTTPResponse(stranger)
        answer.begin()

        assert answer.status == 413
    assert guest.get("/platform") == b"Linux"


@pytest.mark.slow
def test_the_address_bar_of_chrome_is_found_where_osworld_looks_for_it(sandbox: Sandbox) -> None:
    page = b"<title>Shop</title><h1>Shop</h1>"
    address = "file:///home/user/shop.html"
    sandbox.reset(open_task("google-chrome", address, files={"shop.html": page}))
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=60)

    root = ElementTree.fromstring(json.loads(guest.get("/accessibility"))["AT"])

    bars = root.findall("application[@name='Google Chrome']//entry[@name='Address and search bar']")
    assert [bar.text for bar in bars] == ["/home/user/shop.html"]


@pytest.mark.slow
def test_the_tree_of_a_sheet_ends_and_holds_the_cells_on_the_screen(sandbox: Sandbox) -> None:
    """Its table has a thousand million cells."""
    sandbox.reset(open_task(*SHEET, files={"sums.csv": b"7,8\n9,10\n"}))
    guest = Guest(inside(sandbox, SOCKET_PATH), timeout_s=60)
    began = time.monotonic()

    root = ElementTree.fromstring(json.loads(guest.get("/accessibility"))["AT"])

    assert time.monotonic() - began < 30
    assert {"7", "8", "9", "10"} <= {cell.text for cell in root.iter("table-cell")}
