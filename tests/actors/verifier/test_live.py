"""The real checker on a real desktop."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.deploy.tasks.bundle import bundled_tasks


@pytest.mark.live
def test_a_real_desktop_is_judged_untouched_and_then_gone(checker: Checker):
    task = bundled_tasks("train", 1)[0]
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        sandbox.reset(task)
        guest_pid = sandbox.guest_pid
        untouched = checker.verify(task, guest_pid, "DONE")
        sandbox.close()
        gone = checker.verify(task, guest_pid, "DONE")

    assert (untouched.verdict, untouched.score) == ("failure", 0.0)
    assert all(exchange.status == 200 for exchange in untouched.exchanges)
    assert gone.verdict == "infra"
