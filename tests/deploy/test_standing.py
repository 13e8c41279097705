"""A head says how its run stands: who holds which branch, and nothing when none is on."""

from __future__ import annotations

from pathlib import Path

import trio

from envs_node.actors.head.actor import Standing
from tests.deploy.fake_node import TASKS, FakeNode


async def test_a_run_that_is_on_tells_its_tasks_and_who_holds_which_branch(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.open():
        before = await node.runs.standing()
        await node.start("r")
        while True:
            standing = await node.runs.standing()
            assert standing.progress is not None
            if standing.progress.leases or standing.progress.is_over:
                break
            await trio.lowlevel.checkpoint()
        path = node.runs.path()
        await node.finish("r")
        after = await node.runs.standing()

    assert before == after == Standing()
    assert (standing.run, standing.paused, path) == ("r", "", tmp_path / "r")
    assert {task.task_id for task in standing.progress.tasks} == {task.id for task in TASKS}
    lease = standing.progress.leases[0]
    assert lease.holder.startswith("work/fake-")
    assert lease.branch_id.split("#")[0] in {task.id for task in TASKS}
    assert 0 < lease.left_ms <= 20_000
    assert node.runs.path() is None
