"""Steps of a replay on a terminal: the next, one by its number, or no more."""

from __future__ import annotations

import sys

from envs_node.deploy.cli.console import show
from envs_node.deploy.replay import RecordedRun, run_at_once
from envs_node.deploy.stepping import ReplayStep, Stepped, step_through

_PROMPT = "[Enter next | number go there | s state | q quit] "


def step_text(step: ReplayStep) -> str:
    """One step in a few lines."""
    outcome = f"  {step.outcome.upper() if step.outcome == 'differs' else step.outcome}"
    lines = [f"{step.sequence:>6} {step.actor} {step.kind:<8} {step.message}{outcome}".rstrip()]
    if step.is_damaged:
        lines.append("         DAMAGED   its checksum differs")
    if step.where:
        lines += [f"         now       {step.now}", f"         first     {step.where}"]
    lines += [f"         {change}" for change in step.changes]
    return "\n".join(lines)


def step_on_terminal(run: RecordedRun, found: Stepped, *, as_json: bool) -> bool:
    """Ask after each step. False, and nothing done, where there is nobody to ask."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    steps, place = found.steps, 0
    while place < len(steps):
        _tell(step_text(steps[place]))
        place += 1
        while place < len(steps):
            word = _ask()
            if word == "q":
                return True
            if not word:
                break
            if word == "s":
                _show_state(run, found.actor, steps[place - 1].sequence)
                continue
            there = [n for n, step in enumerate(steps) if str(step.sequence) == word]
            if there:
                place = there[0]
                _show_state(run, found.actor, steps[place].sequence)
                break
            _tell(f"no entry {word} of {found.actor}: {_range(steps)}")
    _tell("\n".join(found.state))
    return True


def _ask() -> str:
    try:
        return input(_PROMPT).strip()
    except EOFError:
        return "q"


def _show_state(run: RecordedRun, actor: str, sequence: int) -> None:
    """What the actor knew at an entry: replayed up to there, which takes a moment."""
    then = run_at_once(step_through, run, actor, sequence)
    _tell("\n".join(f"  {line}" for line in then.state))


def _tell(text: str) -> None:
    show(text, text, as_json=False)


def _range(steps: tuple[ReplayStep, ...]) -> str:
    return f"its entries are among {steps[0].sequence} to {steps[-1].sequence}"
