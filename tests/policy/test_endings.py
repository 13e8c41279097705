"""How a branch ends decides whether it is driven again, and whether anything is learned of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from envs_node.messages.search import Assign, LeafReached, LeafReason, LossCause
from envs_node.messages.verify import Verdict
from envs_node.policy.task_search import TaskSearch
from tests.fakes import note_screen
from tests.policy.drive import FAILED, LEASE_NS, SUCCEEDED, drive, lent, make_search, pass_gate

DOCS = Path(__file__).parents[2] / "docs" / "verdicts.md"


class Ending(NamedTuple):
    """What is reported of a branch; nothing where its node was killed."""

    reason: LeafReason = "finish"
    verdict: Verdict | None = None
    cause: LossCause = ""
    is_silent: bool = False


class Effect(NamedTuple):
    """What comes of it."""

    is_again: bool
    """The branch goes to another desktop."""
    leaves: int
    """By how many the task's judged leaves grow, which its weight in the fit rests on."""
    proved: int
    """How many pairs of state and action are remembered to lead nowhere."""
    certifies: bool = False
    """Its path is replayed and judged once more."""


RAISED = Verdict(verdict="failure", reason="checker raised KeyError: 'no a.txt'", phase="metric")
UNSURE = Verdict(verdict="checker_error", reason="the metric returned no finite number but a float")
LATE = Verdict(verdict="infra", reason="no verdict within 60 s")
KILLED = Verdict(verdict="infra", reason="the check ended without an answer")
FULL = Verdict(verdict="infra", reason="the task's files cannot be laid out: no space left")
ALTERED = Verdict(verdict="infra", reason="the checker's files are not those that were installed")
LACKING = Verdict(verdict="unsupported", reason="the checker needs the network")
LEARNED, NOTHING, AGAIN = Effect(False, 1, 2), Effect(False, 0, 0), Effect(True, 0, 0)

ENDINGS: dict[str, tuple[Ending, Effect]] = {
    "success": (Ending("finish", SUCCEEDED), Effect(False, 1, 0, certifies=True)),
    "wrong answer": (Ending("finish", FAILED), LEARNED),
    "gave up": (Ending("fail", FAILED), LEARNED),
    "step limit": (Ending("step_limit", FAILED), LEARNED),
    "stuck": (Ending("stuck", FAILED), LEARNED),
    "nothing could be parsed": (Ending("no_proposal", FAILED), LEARNED),
    "action refused": (Ending("refused", FAILED), LEARNED),
    "checker raised": (Ending("finish", RAISED), LEARNED),
    "no finite number": (Ending("finish", UNSURE), NOTHING),
    "checker lacks something": (Ending("finish", LACKING), NOTHING),
    "checker timed out": (Ending("finish", LATE, "verifier"), AGAIN),
    "checker killed or silent": (Ending("finish", KILLED, "verifier"), AGAIN),
    "checker altered": (Ending("finish", ALTERED, "verifier"), AGAIN),
    "disk full": (Ending("finish", FULL, "verifier"), AGAIN),
    "verifier crashed": (Ending("infra", None, "verifier"), AGAIN),
    "policy timed out": (Ending("infra", None, "policy"), AGAIN),
    "desktop died": (Ending("infra", None, "desktop"), AGAIN),
    "set-up failed": (Ending("infra", None, "task"), AGAIN),
    "node killed": (Ending(is_silent=True), AGAIN),
}


def _report(assign: Assign, ending: Ending) -> LeafReached:
    _, leaf = drive(note_screen(), assign)
    return msgspec.structs.replace(
        leaf, reason=ending.reason, verdict=ending.verdict, cause=ending.cause
    )


def _ended(ending: Ending) -> tuple[TaskSearch, Assign, int]:
    search = make_search()
    pass_gate(search)
    assign = lent(search)
    if ending.is_silent:
        search.lapse(2 * LEASE_NS)
        return search, assign, 2 * LEASE_NS
    search.leaf_reached(_report(assign, ending), 0)
    return search, assign, 60 * LEASE_NS  # a policy that was away has rested by then


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_has_the_effect_that_its_class_says(name: str) -> None:
    ending, effect = ENDINGS[name]

    search, assign, now_ns = _ended(ending)

    progress = search.progress()
    memory = search._failures.statistics()["pairs_failed"]
    work = lent(search, now_ns)
    assert (progress.leaves, min(memory, 2)) == (effect.leaves, effect.proved)
    assert (work.branch_id == assign.branch_id) == effect.is_again
    assert (work.kind == "certify") == effect.certifies
    assert progress.reassigned == int(effect.is_again)


@pytest.mark.parametrize("name", [name for name, (_, effect) in ENDINGS.items() if effect.is_again])
def test_a_fault_leaves_the_weight_of_its_task_as_it_was(name: str) -> None:
    search, _, now_ns = _ended(ENDINGS[name][0])

    search.leaf_reached(_report(lent(search, now_ns), Ending("finish", SUCCEEDED)), now_ns)

    assert search.tally.success_rate() == 1.0


def test_the_table_of_endings_is_this_one() -> None:
    rows = [line.split("|") for line in DOCS.read_text("utf-8").splitlines() if "| " in line]
    named = [[cell.strip() for cell in row[1:-1]] for row in rows if len(row) == 7]

    table = {row[0]: row[2:] for row in named if row[0] in ENDINGS}

    assert table == {
        name: [
            "yes" if effect.is_again else "no",
            "yes" if effect.leaves else "no",
            "yes" if effect.proved else "no",
        ]
        for name, (_, effect) in ENDINGS.items()
    }
