"""A task whose set-up fails is named with the reason, and is no quiet zero."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from tests.deploy.nodes import Node

pytestmark = pytest.mark.live


def test_a_task_whose_set_up_fails_is_refused_with_the_reason(tmp_path: Path) -> None:
    task = next(t for t in bundled_tasks("train", 1) if t.apps == ("mousepad",))
    write_tasks(tmp_path / "tasks", (task,))
    path = tmp_path / "tasks" / f"{task.id}.json"
    broken = json.loads(path.read_bytes())
    broken["config"].insert(0, {"type": "launch", "parameters": {"command": ["no-such-program"]}})
    path.write_text(json.dumps(broken))
    brief = ("--desktop.count", "1", "--search.infra-retries-max", "0", "--json")

    with Node(tmp_path, "search", "search", "tasks", "--run", "r-1", *brief) as search:
        status = search.process.wait(timeout=120)
        story = search.story()

    assert status == 2, story
    (line,) = (line for line in story.splitlines() if line.startswith("envs-node: "))
    assert f"{task.id} was not searched" in line
    assert "set-up step 0 (launch)" in line
    assert "no-such-program" in line
    assert msgspec.json.decode(search.output())["search"]["states"] == {"refused": 1}
