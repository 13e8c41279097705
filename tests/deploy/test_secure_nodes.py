"""Nodes as processes: what they listen at, what they tell, and that a secret is told nowhere."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
from pathlib import Path

import pytest

from tests.deploy.nodes import Node, wait_until

pytestmark = pytest.mark.live
UP_S = 60.0
_LISTENS = "0A"
_LOOPBACK = ("0100007F", "00000000000000000000000001000000")


def listening_hosts(pid: int) -> set[str]:
    """The hosts, in the kernel's hex, of the TCP sockets that a process listens on."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(descriptor))
    hosts = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in own:
                hosts.add(fields[1].partition(":")[0])
    return hosts


def test_a_head_listens_on_loopback_alone(tmp_path: Path) -> None:
    with Node(tmp_path, "head", "start", "--role", "head", "--listen", "tcp://127.0.0.1:0") as head:
        head.wait_for(r"head listens at (\S+)", UP_S)

        hosts = listening_hosts(head.process.pid)

    assert hosts
    assert hosts <= set(_LOOPBACK)


def test_who_connects_and_says_nothing_takes_no_file_that_a_secure_head_needs(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        listen = ("--listen", "tls+tcp://127.0.0.1:0")
        head = Node(tmp_path, "head", "start", "--role", "head", *listen)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with head, contextlib.ExitStack() as silent:
        url = head.wait_for(r"head listens at (\S+)", UP_S)
        port = int(url.rpartition(":")[2])
        for _ in range(300):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        with Node(tmp_path, "status", "status", "--head", url) as status:
            code = status.process.wait(timeout=UP_S)

    assert code == 0, status.story()


@pytest.mark.slow
def test_a_policy_joins_by_a_token_that_is_told_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Node(tmp_path, "token", "token", "create", "--json") as made:
        assert made.process.wait(timeout=UP_S) == 0
    token = json.loads(made.output())["token"]
    secret = token.rpartition(".")[2]
    secure = ("--listen", "tls+tcp://127.0.0.1:0")

    with contextlib.ExitStack() as nodes:
        head = nodes.enter_context(Node(tmp_path, "head", "start", "--role", "head", *secure))
        url = head.wait_for(r"head listens at (\S+)", UP_S)
        monkeypatch.setenv("ENVS_NODE_TOKEN", token)
        where = ("--role", "policy", "--head", url, "--folder", "far", *secure)
        policy = nodes.enter_context(Node(tmp_path, "policy", "start", *where))
        public = policy.wait_for(r"policy listens at (\S+)", UP_S)
        monkeypatch.delenv("ENVS_NODE_TOKEN")
        late = nodes.enter_context(Node(tmp_path, "late", "start", *where, "--link.node", "late"))
        assert late.process.wait(timeout=UP_S) == 2
        arguments = Path(f"/proc/{policy.process.pid}/cmdline").read_bytes()
        wait_until(lambda: "node.enrolled" in head.story(), 10, "the head's line")
    with Node(tmp_path, "ls", "token", "ls", "--json") as listed:
        assert listed.process.wait(timeout=UP_S) == 0

    assert public.startswith("tls+tcp://")
    assert "@127.0.0.1:" in public
    assert len(json.loads(listed.output())[0]["nodes"]) == 1
    assert "asks for a certificate" in late.story()
    assert secret.encode() not in arguments
    telling = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.name != "token.stdout"
    ]
    assert len(telling) > 8
    assert not [path for path in telling if secret.encode() in path.read_bytes()]
    keys = [path for path in telling if b"PRIVATE KEY" in path.read_bytes()]
    assert {path.name for path in keys} == {"key.pem"}
