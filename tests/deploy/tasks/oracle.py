"""Turns the steps of a bundled task's solution into canonical actions on a real screen."""

from __future__ import annotations

from envs_node.deploy.tasks.template import ClickOn, OracleStep
from envs_node.messages.actions import Action, Click, Target
from envs_node.messages.desktop import Element, Observation


class NotListedError(AssertionError):
    """The element a solution clicks on is not in the list; the message shows the list."""


def resolve(step: OracleStep, observation: Observation) -> Action:
    """The action that a solution's step means on this screen.

    Raises:
        NotListedError: no listed element has the role and name.
    """
    if not isinstance(step, ClickOn):
        return step
    for element in observation.elements:
        if (element.role, element.name) == (step.role, step.name):
            return _click(element, step.count)
    listed = ", ".join(f"{each.role} {each.name!r}" for each in observation.elements)
    raise NotListedError(f"no {step.role} {step.name!r} among: {listed}")


def _click(element: Element, count: int) -> Click:
    return Click(
        x=element.x + element.width // 2,
        y=element.y + element.height // 2,
        count=count,
        target=Target(role=element.role, name=element.name),
    )
