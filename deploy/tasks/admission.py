"""The gate before a search: can this task be trusted to tell a success from anything else?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

import msgspec

from envs_node.actors.desktop.errors import (
    ActionRefusedError,
    DesktopLostError,
    SetupFailedError,
)
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.setup import check_setup
from envs_node.actors.verifier.checker import Checker, Door
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.tasks.oracle import NotListedError, NotShownError, perform
from envs_node.deploy.tasks.stubs import dead_desktop, empty_desktop
from envs_node.deploy.tasks.template import OracleStep
from envs_node.messages.actions import Finish
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict
from envs_node.policy.tasks import is_infeasible, unsupported_reason

CheckName = Literal["reading", "dead desktop", "empty desktop", "do nothing", "solution"]
_SCORES_APART = 1e-6
"""Closer ones are the same: a checker's rounding is not the task's."""
_TRIES = 3
"""So often a desktop may break or a solution get stuck before the task is blamed."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check of the gate found."""

    check: CheckName
    is_good: bool
    said: str
    scores: tuple[float | None, ...] = ()
    """Of each repeat; None where the checker gave none."""
    is_undecided: bool = False
    """Whether desktops or the checker broke each time: that is not the task's fault."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says of one task, by one checker."""

    task_id: str
    task_sha256: str
    checker: str
    repeats: int
    is_admitted: bool
    reason: str
    """Why not; empty when it is admitted."""
    is_undecided: bool = False
    """Whether this host could not tell; such a task is neither admitted nor quarantined."""
    findings: tuple[Finding, ...]
    has_solution: bool
    """Whether a solution was driven; without one nothing shows that the task can be solved."""
    wall_s: float


class Gate:
    """One desktop and one checker, and two checkers that look at desktops which are none.

    Args:
        source: the installed checker.
        make_desktop: makes the desktop that tasks are set up on.
        repeats: how often doing nothing and the solution are judged, each on a fresh desktop.
        checker: makes the checkers.
    """

    def __init__(
        self,
        source: CheckerSource,
        make_desktop: Callable[[], Sandbox],
        *,
        repeats: int = 3,
        checker: Callable[..., Checker] = Checker,
    ) -> None:
        self._source = source
        self._repeats = repeats
        self._stack = ExitStack()
        with ExitStack() as opened:
            self._desktop = make_desktop()
            opened.callback(self._desktop.close)
            self._checker = checker(source)
            opened.callback(self._checker.close)
            self._stubs: dict[CheckName, Checker] = {}
            doors: tuple[tuple[CheckName, Door], ...] = (
                ("dead desktop", opened.enter_context(dead_desktop())),
                ("empty desktop", opened.enter_context(empty_desktop())),
            )
            for name, door in doors:
                self._stubs[name] = checker(source, find_door=lambda door=door: door)
                opened.callback(self._stubs[name].close)
            self._stack = opened.pop_all()

    def close(self) -> None:
        """Close desktop and checkers."""
        self._stack.close()

    def admit(self, task: Task, solution: Sequence[OracleStep] | None) -> Admission:
        """Put a task through all checks, up to the first that fails.

        Args:
            task: it may be of any origin.
            solution: steps that must earn the full score; None where nobody wrote one.
        """
        began = time.monotonic()
        findings: list[Finding] = []
        for finding in self._find(task, solution):
            findings.append(finding)
            if not finding.is_good:
                break
        bad = next((finding for finding in findings if not finding.is_good), None)
        return Admission(
            task_id=task.id,
            task_sha256=task.sha256,
            checker=self._source.version,
            repeats=self._repeats,
            is_admitted=bad is None,
            reason=f"{bad.check}: {bad.said}" if bad else "",
            is_undecided=bad is not None and bad.is_undecided,
            findings=tuple(findings),
            has_solution=solution is not None,
            wall_s=round(time.monotonic() - began, 1),
        )

    def _find(self, task: Task, solution: Sequence[OracleStep] | None) -> Iterator[Finding]:
        lack = self._lack(task)
        yield Finding(check="reading", is_good=not lack, said=lack or "sound")
        for name, checker in self._stubs.items():
            verdict = checker.verify(task, 0, "DONE")
            said = f"{verdict.verdict}{f' ({verdict.reason})' if verdict.reason else ''}"
            is_good = verdict.verdict != "success"
            yield Finding(check=name, is_good=is_good, said=said, scores=(verdict.score,))
        yield self._repeat("do nothing", task, (), _fault_of_nothing)
        if solution is not None:
            yield self._repeat("solution", task, solution, _fault_of_solution)

    def _lack(self, task: Task) -> str:
        if is_infeasible(task):
            return "infeasible: the right answer is to give up, which no desktop is searched for"
        reason = unsupported_reason(task, self._source.vocabulary)
        if reason:
            return f"unsupported: {reason}"
        try:
            check_setup(task)
        except SetupFailedError as error:
            return f"cannot be set up: {error}"
        return ""

    def _repeat(
        self,
        check: CheckName,
        task: Task,
        steps: Sequence[OracleStep],
        fault_of: Callable[[Verdict], str],
    ) -> Finding:
        verdicts: list[Verdict] = []
        for _ in range(self._repeats):
            verdicts.append(self._judge(task, steps))
            fault = fault_of(verdicts[-1])
            if fault:
                break
        scores = tuple(verdict.score for verdict in verdicts)
        if not fault and not _are_alike(scores):
            fault = f"not the same each time: scores {', '.join(map(_shown, scores))}"
        said = fault or f"{verdicts[0].verdict}, score {_shown(scores[0])}"
        return Finding(
            check=check,
            is_good=not fault,
            said=said,
            scores=scores,
            is_undecided=verdicts[-1].verdict == "infra",
        )

    def _judge(self, task: Task, steps: Sequence[OracleStep]) -> Verdict:
        """Play on a fresh desktop and judge; what breaks on the way is tried again."""
        verdict = Verdict(verdict="infra")
        for _ in range(_TRIES):
            try:
                seen = self._desktop.reset(task)
                for step in steps:
                    if not isinstance(step, Finish):
                        seen = perform(self._desktop, step, seen)
                pid = self._desktop.guest_pid
            except DesktopLostError as error:
                verdict = Verdict(verdict="infra", reason=f"the desktop broke: {error}")
                continue
            except SetupFailedError as error:
                verdict = Verdict(verdict="unsupported", reason=f"the set-up fails: {error}")
                continue
            except (NotListedError, NotShownError, ActionRefusedError) as error:
                reason = f"the solution is stuck: {error}"[:500]
                verdict = Verdict(verdict="unsupported", reason=reason)
                continue
            verdict = self._checker.verify(task, pid, "DONE")
            if verdict.verdict != "infra":
                return verdict
        return verdict


def _are_alike(scores: Sequence[float | None]) -> bool:
    """Whether a task scored the same each time; a checker that raises gives no score."""
    numbers = [score for score in scores if score is not None]
    if len(numbers) < len(scores):
        return not numbers
    return max(numbers) - min(numbers) <= _SCORES_APART


def _fault_of_nothing(verdict: Verdict) -> str:
    if verdict.verdict == "success":
        return f"vacuous: doing nothing scores {_shown(verdict.score)}"
    return "" if verdict.verdict == "failure" else f"{verdict.verdict}: {verdict.reason}"


def _fault_of_solution(verdict: Verdict) -> str:
    if verdict.verdict == "success":
        return ""
    score = _shown(verdict.score)
    return f"judged {verdict.verdict}, score {score}: {verdict.reason}".rstrip(": ")


def _shown(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"
