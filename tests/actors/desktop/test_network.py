"""The way out: to listed hosts, at public addresses, and nowhere else."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from envs_node.actors.desktop.guest import relay
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.network import Bridge, grant, permits
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.tasks import Task
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import make_task

LISTED = ("example.org", "*.example.net", "data.example.com:8080")
PUBLIC = "93.184.216.34"


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Host']} {self.headers['Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def page() -> Iterator[int]:
    """A web server of this very test; its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@contextmanager
def bridge(path: Path, page: int, addresses: Sequence[str] = (PUBLIC,)) -> Iterator[list[str]]:
    """A bridge whose names all resolve to these, and whose connections all lead to the page."""
    connected: list[str] = []

    def connect(address: str, port: int) -> socket.socket:
        connected.append(f"{address}:{port}")
        return socket.create_connection(("127.0.0.1", page), timeout=10)

    made = Bridge(path, LISTED, desktop=7, resolve=lambda *_: addresses, connect=connect)
    try:
        yield connected
    finally:
        made.close()


def wish(**fields: object) -> Task:
    """A task whose file has these fields."""
    return msgspec.structs.replace(make_task(), json=json.dumps(fields).encode())


def ask(path: Path, request: bytes) -> bytes:
    """Send, and read until the other end hangs up."""
    with socket.socket(socket.AF_UNIX) as handle:
        handle.settimeout(20)
        handle.connect(str(path))
        handle.sendall(request)
        answer = b""
        while chunk := handle.recv(65536):
            answer += chunk
        return answer


@pytest.mark.parametrize(
    ("host", "port", "is_permitted"),
    [
        ("example.org", 443, True), ("example.org", 80, True), ("example.org", 22, False),
        ("www.example.org", 443, False), ("badexample.org", 443, False),
        ("a.example.net", 443, True), ("a.b.example.net", 80, True), ("example.net", 443, False),
        ("data.example.com", 8080, True), ("data.example.com", 443, False), ("", 443, False),
        ("badexample.net", 443, False), ("127.0.0.1", 80, False),
    ],
)  # fmt: skip
def test_a_list_permits_what_it_names(host: str, port: int, is_permitted: bool):
    assert permits(LISTED, host, port) is is_permitted
    assert not permits((), host, port)


@given(st.text(max_size=30), st.integers(0, 65535))
def test_nothing_is_permitted_but_what_ends_in_a_listed_name(host: str, port: int):
    if permits(LISTED, host, port):
        assert host in ("example.org", "data.example.com") or host.endswith(".example.net")


def test_a_task_gets_what_it_asks_for_of_what_is_listed():
    def task(**fields: object) -> tuple[str, ...]:
        return grant(wish(**fields), LISTED)

    assert task() == ()
    assert task(proxy=False) == ()
    assert task(proxy="yes") == ()
    assert task(proxy=True) == LISTED
    assert task(allowed_hosts=["example.org", "evil.example"]) == ("example.org",)
    assert task(proxy=True, allowed_hosts=["example.org"]) == ("example.org",)
    assert task(allowed_hosts=7) == ()


def test_plain_requests_and_tunnels_reach_a_listed_host_and_are_told_of(tmp_path: Path, page: int):
    with capture_logs() as logs, bridge(tmp_path / "s", page) as connected:
        plain = ask(tmp_path / "s", b"GET http://example.org/a?b=1 HTTP/1.1\r\nHost: evil\r\n\r\n")
        tunnel = ask(
            tmp_path / "s",
            b"CONNECT a.example.net:443 HTTP/1.1\r\n\r\nGET /in HTTP/1.0\r\nHost: a\r\n\r\n",
        )
        assert wait_until(lambda: len(logs) == 2)

    assert plain.endswith(b"/a?b=1 example.org close")
    assert tunnel.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200")
    assert tunnel.endswith(b"/in a None")
    assert connected == [f"{PUBLIC}:80", f"{PUBLIC}:443"]
    assert [(log["event"], log["host"], log["desktop"]) for log in logs] == [
        ("network.used", "example.org", 7),
        ("network.used", "a.example.net", 7),
    ]
    assert all(log["received_bytes"] > 0 for log in logs)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"CONNECT evil.example:443 HTTP/1.1", b"403"),
        (b"CONNECT example.org:22 HTTP/1.1", b"403"),
        (b"GET http://evil.example/ HTTP/1.1", b"403"),
        (b"GET http://example.org@evil.example/ HTTP/1.1", b"400"),
        (b"GET http://evil.example\\@example.org/ HTTP/1.1", b"400"),
        (b"GET /etc/passwd HTTP/1.1", b"400"),
        (b"GET file:///etc/passwd HTTP/1.1", b"400"),
        (b"CONNECT example.org:99999 HTTP/1.1", b"400"),
        (b"CONNECT \xff\xfe:443 HTTP/1.1", b"400"),
        (b"nonsense", b"400"),
        (b"x" * 70_000, b"400"),
    ],
)  # fmt: skip
def test_everything_else_is_refused(tmp_path: Path, page: int, request_line: bytes, status: bytes):
    with capture_logs() as logs, bridge(tmp_path / "s", page) as connected:
        answer = ask(tmp_path / "s", request_line + b"\r\n\r\n")
        assert wait_until(lambda: bool(logs))

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert not connected
    assert [log["event"] for log in logs] == ["network.refused"]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1",
     "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "fe80::1%eth0", "fc00::1",
     "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "nonsense", "ff02::1"],
)  # fmt: skip
def test_a_listed_name_that_resolves_to_the_inside_is_refused(
    tmp_path: Path, page: int, address: str
):
    with bridge(tmp_path / "s", page, (PUBLIC, address)) as connected:
        answer = ask(tmp_path / "s", b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403")
    assert b"not public" in answer
    assert not connected


@pytest.mark.parametrize("name", ["a" * 64 + ".example.net", "a..example.net"])
def test_a_listed_name_that_is_none_is_answered(tmp_path: Path, name: str):
    listening = Bridge(tmp_path / "s", LISTED, desktop=7)
    try:
        answer = ask(tmp_path / "s", f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
    finally:
        listening.close()

    assert answer.startswith(b"HTTP/1.1 502")


def test_a_closed_bridge_cuts_what_is_open_and_answers_nobody(tmp_path: Path, page: int):
    with socket.socket(socket.AF_UNIX) as handle:
        handle.settimeout(20)
        with bridge(tmp_path / "s", page):
            handle.connect(str(tmp_path / "s"))
            handle.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
            assert handle.recv(100).startswith(b"HTTP/1.1 200")

        assert handle.recv(100) == b""
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
        late.connect(str(tmp_path / "s"))


@pytest.mark.live
def test_a_desktop_reaches_a_listed_host_only_where_task_and_settings_say_so(
    launcher: Launcher, page: int
):
    sandbox = Sandbox(launcher, DesktopKind(), allowed_hosts=LISTED)
    try:
        sandbox.reset(make_task())
        assert "URLError" in fetch(sandbox, "example.org")
        assert shell(sandbox, "echo $http_proxy") == "\n"

        sandbox.reset(wish(proxy=True))
        with bridge(inside(sandbox, relay.SOCKET_PATH), page):
            assert fetch(sandbox, "example.org") == "/page example.org close"
            assert "403: Forbidden" in fetch(sandbox, "evil.example")
        assert shell(sandbox, "ip -o link | wc -l") == "1\n"
    finally:
        sandbox.close()


def fetch(sandbox: Sandbox, host: str) -> str:
    """What a program inside gets from a host, or the last line of its complaint."""
    source = f"import urllib.request as r; print(r.urlopen('http://{host}/page').read().decode())"
    return shell(sandbox, f'python3 -c "{source}"').strip().splitlines()[-1]
