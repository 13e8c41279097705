"""Performs the steps of a bundled task's solution on a real screen, as canonical actions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from envs_node.deploy.tasks.template import ClickOn, OracleStep, SwitchTo
from envs_node.messages.actions import Action, Click, Key, Target
from envs_node.messages.base import EnvsError
from envs_node.messages.desktop import Element, Observation

PATIENCE_S = 30
"""How long what a busy machine shows late is waited for."""
_LISTED_MAX = 60
_EDGE_PX = 4


class NotListedError(EnvsError):
    """The element that a solution names is not in the list; the message shows the list."""


class NotShownError(EnvsError):
    """A window that a solution switches to does not get the keyboard."""


class Drives(Protocol):
    """What a solution needs of a desktop."""

    def act(self, action: Action) -> Observation:
        """Perform an action, and look once the picture is still."""

    def observe(self) -> Observation:
        """Look once the picture is still."""


def perform(desktop: Drives, step: OracleStep, seen: Observation) -> Observation:
    """Perform a step of a solution, and look.

    Raises:
        EnvsError: `NotListedError`, `NotShownError`, or what the desktop raises.
    """
    if isinstance(step, ClickOn):
        seen = _wait(desktop, seen, lambda now: any(_is_meant(each, step) for each in _shown(now)))
    seen = desktop.act(resolve(step, seen))
    if isinstance(step, SwitchTo):
        seen = _wait(desktop, seen, lambda now: step.window in _focused(now))
        if step.window not in _focused(seen):
            raise NotShownError(f"{_focused(seen)!r} has the keyboard, not {step.window!r}")
    return seen


def resolve(step: OracleStep, observation: Observation) -> Action:
    """The action that a solution's step means on this screen.

    Raises:
        NotListedError: no listed element has the role and name.
    """
    if isinstance(step, SwitchTo):
        return Key(keys=("alt", "tab"))
    if not isinstance(step, ClickOn):
        return step
    for element in _shown(observation):
        if _is_meant(element, step):
            return _click(element, step)
    listed = [f"{each.role} {each.name!r}" for each in observation.elements]
    more = f" and {len(listed) - _LISTED_MAX} more" if len(listed) > _LISTED_MAX else ""
    raise NotListedError(
        f"no {step.role} {step.name!r} among: {', '.join(listed[:_LISTED_MAX])}{more}"
    )


def _wait(
    desktop: Drives, seen: Observation, is_there: Callable[[Observation], bool]
) -> Observation:
    deadline = time.monotonic() + PATIENCE_S
    while not is_there(seen) and time.monotonic() < deadline:
        seen = desktop.observe()
    return seen


def _focused(seen: Observation) -> str:
    return next((window.title for window in seen.windows if window.is_focused), "")


def _shown(seen: Observation) -> tuple[Element, ...]:
    """All that can be clicked on by name: the elements, and the upper edges of the windows."""
    edges = (
        Element("window", each.title, "", each.x, each.y, each.width, height=_EDGE_PX)
        for each in seen.windows
    )
    return (*seen.elements, *edges)


def _is_meant(element: Element, step: ClickOn) -> bool:
    return (element.role, element.name) == (step.role, step.name)


def _click(element: Element, step: ClickOn) -> Click:
    return Click(
        x=element.x + element.width // 2,
        y=element.y + element.height // 2,
        button=step.button,
        count=step.count,
        target=Target(role=element.role, name=element.name),
    )
