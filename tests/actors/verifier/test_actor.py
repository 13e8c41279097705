"""The verifier's actor: one answer a request, whatever the checker does."""

from __future__ import annotations

import threading
from typing import Literal

import pytest
import trio

from envs_node.actors.verifier import actor as actor_module
from envs_node.actors.verifier.actor import VerifierActor
from envs_node.actors.verifier.checker import CheckerLostError
from envs_node.messages.base import TaskId
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict, Verify

TASK = Task(
    id=TaskId("t"),
    instruction="Do it.",
    template="t",
    split="train",
    apps=(),
    json=b'{"evaluator": {"func": "infeasible"}}',
    sha256="digest",
)


class FakeChecker:
    """Says what it is told to, and counts."""

    def __init__(self, *, fails: Exception | None = None, waits: bool = False) -> None:
        self.asked: list[tuple[int, str]] = []
        self.is_open = False
        self.released = threading.Event()
        self._fails = fails
        self._waits = waits

    def start(self) -> None:
        self.is_open = True

    def verify(self, task: Task, guest_pid: int, last_action: Literal["DONE", "FAIL"]) -> Verdict:
        self.asked.append((guest_pid, last_action))
        if self._waits:
            self.released.wait(5)
        if self._fails is not None:
            raise self._fails
        return Verdict(verdict="success", score=1.0, task_sha256=task.sha256)

    def close(self) -> None:
        self.is_open = False


def _verify(verify_id: str = "v0") -> Verify:
    return Verify(verify_id=verify_id, task=TASK, guest_pid=7, last_action="DONE")


async def test_a_repeated_request_is_answered_and_not_judged_again():
    checker = FakeChecker()
    actor = VerifierActor(checker)

    first, again = await actor.hear(_verify()), await actor.hear(_verify())

    assert first == again
    assert (first.verify_id, first.verdict.verdict) == ("v0", "success")
    assert checker.asked == [(7, "DONE")]


async def test_memory_is_bounded():
    actor = VerifierActor(FakeChecker())

    for number in range(actor_module.REMEMBERED_MAX + 3):
        await actor.hear(_verify(f"v{number}"))

    assert actor.statistics() == {
        "verdicts": actor_module.REMEMBERED_MAX + 3,
        "remembered": actor_module.REMEMBERED_MAX,
    }


@pytest.mark.parametrize("error", [CheckerLostError("gone"), OSError(28, "no space left")])
async def test_a_broken_checker_is_a_verdict_of_class_infra(error: Exception):
    actor = VerifierActor(FakeChecker(fails=error))

    said = await actor.hear(_verify())

    assert said.verdict.verdict == "infra"
    assert str(error) in said.verdict.reason
    assert said.verdict.task_sha256 == "digest"


async def test_what_is_found_on_a_desktop_that_was_lost_is_no_verdict_on_a_policy():
    actor = VerifierActor(FakeChecker(), loss=lambda pid: f"out of memory: {pid}")

    answer = await actor.hear(_verify())

    assert (answer.verdict.verdict, answer.verdict.reason) == ("infra", "out of memory: 7")
    assert answer.verdict.score is None


async def test_a_silent_checker_is_infra_at_the_deadline():
    checker = FakeChecker(waits=True)
    actor = VerifierActor(checker, verify_timeout_s=0.05)

    with trio.fail_after(2):
        said = await actor.hear(_verify())
    checker.released.set()

    assert said.verdict.verdict == "infra"
    assert said.verdict.reason == "the checker gave no verdict within 0.05 s"


async def test_the_checker_is_open_from_start_to_stop_even_when_cancelled():
    checker = FakeChecker()
    actor = VerifierActor(checker)

    await actor.start()
    was_open = checker.is_open
    with trio.CancelScope() as scope:
        scope.cancel()
        await actor.stop()

    assert was_open
    assert not checker.is_open
