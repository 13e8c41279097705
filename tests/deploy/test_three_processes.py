"""Head, desktops and policy as three processes: one is killed amid branches, nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from tests.deploy.nodes import (
    Node,
    alive,
    branches_under_way,
    descendants,
    leases_and_reports,
    mounts,
    wait_until,
)

pytestmark = pytest.mark.live
UP_S = 60.0
SEARCH = (
    "--search.lease-ms", "5000",
    "--search.leaves-task-max", "3",
    "--search.successes-task-max", "1",
    "--search.steps-max", "6",
)  # fmt: skip


def _desktop_node(folder: Path, name: str, head: str) -> Node:
    where = ("--folder", str(folder / "nodes"), "--link.node", name, "--head", head)
    return Node(folder, name, "start", "--role", "desktop", "--desktop.count", "2", *where)


def test_a_search_survives_the_death_of_its_desktop_node(tmp_path: Path) -> None:
    tasks = [t for t in bundled_tasks("train", 1) if t.apps[0] in ("mousepad", "gedit")][:2]
    write_tasks(tmp_path / "tasks", tuple(tasks))
    any_port = ("--listen", "tcp://127.0.0.1:0")
    mounted = mounts()
    run = tmp_path / "heads" / "three"

    with contextlib.ExitStack() as nodes:
        start_head = ("start", "--role", "head", "--folder", str(run.parent), *any_port)
        head = nodes.enter_context(Node(tmp_path, "head", *start_head))
        url = head.wait_for(r"head listens at (\S+)", UP_S)
        start_policy = ("start", "--role", "policy", "--head", url, *any_port)
        nodes.enter_context(Node(tmp_path, "policy", *start_policy))
        first = nodes.enter_context(_desktop_node(tmp_path, "desktops-a", url))
        searching = ("search", str(tmp_path / "tasks"), "--head", url, "--run", str(run), "--json")
        search = nodes.enter_context(Node(tmp_path, "search", *searching, *SEARCH))

        under_way = wait_until(
            lambda: branches_under_way(run / "journal"), 2 * UP_S, "a branch with a node"
        )
        left = descendants(first.process.pid)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(timeout=10)
        nodes.enter_context(_desktop_node(tmp_path, "desktops-b", url))

        wait_until(lambda: not alive(left), 15, f"the end of {len(left)} processes")
        status = search.process.wait(timeout=150)
        assert status == 0, search.story()

    summary = msgspec.json.decode(search.output())["search"]
    assert len(left) > 10, "the desktops of the killed node were many processes"
    assert summary["reassigned"] >= 1
    assert summary["tasks"] == 2
    leases, accepted = leases_and_reports(run / "journal")
    for branch_id, lease in under_way.items():
        assert max(leases[branch_id]) > lease, f"{branch_id} was lost and not sent out again"
    assert all(numbers == sorted(set(numbers)) for numbers in leases.values())
    assert set(accepted) == set(leases), "a branch that was lent and never reported"
    with LedgerStore(run / "ledger.sqlite", is_read_only=True) as store:
        kept = store.trajectories(certified_only=False)
    assert len({(found.task_id, found.path) for found in kept}) == len(kept)
    assert sum(found.is_certified for found in kept) == summary["distinct"]
    with Node(tmp_path, "replay", "replay", str(run)) as replay:
        status = replay.process.wait(timeout=60)
        assert status == 0, replay.output().decode()
    assert mounts() <= mounted
