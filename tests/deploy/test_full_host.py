"""Rows D20 and D21 on a real node: what does not fit waits, says why, and comes when it can."""

from __future__ import annotations

import itertools
import resource
from pathlib import Path

import msgspec
import pytest

from envs_node.messages.status import Status
from tests.deploy.nodes import Node, wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]
COUNT = 3
WANTED = 16
"""Open files of one desktop in its node."""


def limit_files(node: Node, most: int) -> None:
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (most, 4096))


def open_files(node: Node) -> int:
    return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))


def look(folder: Path, url: str, number: int) -> tuple[int, Status]:
    with Node(folder, f"look-{number}", "status", "--head", url, "--json") as asked:
        code = asked.process.wait(timeout=60)
    return code, msgspec.json.decode(asked.output(), type=Status)


def test_a_node_with_more_desktops_than_its_host_has_room_for_starts_what_fits_and_says_why(
    tmp_path: Path,
) -> None:
    url = f"ipc://{tmp_path}/head.sock"
    start = ("start", "--folder", "runs", "--role")
    drives = ("desktop", "--head", url, "--link.node", "desk", "--desktop.count", str(COUNT))
    with Node(tmp_path, "desk", *start, *drives, "--desktop.warm", "0") as desk:
        desk.wait_for(r"(head.missed)", 60)  # what a host must have was looked at before
        most = open_files(desk) + WANTED + WANTED // 2
        limit_files(desk, most)
        with Node(tmp_path, "head", *start, "head", "--listen", url):
            see_one_start_and_two_wait(tmp_path, url, desk)


def see_one_start_and_two_wait(folder: Path, url: str, desk: Node) -> None:
    desk.wait_for(r"(RLIMIT_NOFILE: .* ulimit -n .*desktop.refused)", 60)
    looks = itertools.count(1)
    wait_until(lambda: look(folder, url, next(looks))[0] == 1, 60, "the head to hear of it")

    code, status = look(folder, url, next(looks))
    (node,) = (node for node in status.nodes if node.node == "desk")
    waiting = [d for d in node.report.desktops if d.state == "waiting"]
    assert code == 1
    assert len(waiting) == COUNT - 1, "one fits in"
    assert "RLIMIT_NOFILE" in waiting[0].detail
    assert any(
        reason.startswith("1 of 3 desktops run; no room for more: RLIMIT_NOFILE")
        for reason in node.report.degraded
    )

    limit_files(desk, 4096)
    desk.wait_for(r"(desktop.admitted)", 60)
    wait_until(
        lambda: desk.story().count("desktop.admitted") == len(waiting), 60, "all to be let in"
    )
