"""Lessons: generated tasks played move by move, each step a state and the action to take."""

from __future__ import annotations

import random

from envs_node.messages.actions import Action, Click, Finish, Key, Target, Type
from envs_node.messages.propose import State
from envs_node.policy.models.pointer.recipes import make_lesson
from envs_node.policy.models.pointer.screens import Move, Screen

Step = tuple[State, Action]


def play(seed: int, kind: str | None = None) -> list[Step]:
    """Play the lesson of a seed: equal seeds give equal steps."""
    chance = random.Random(f"lesson {seed}")
    screen, instruction, moves = make_lesson(chance, kind)
    history: tuple[Action, ...] = ()
    steps: list[Step] = []
    for move in [*moves, Move("finish")]:
        state = State(instruction=instruction, observation=screen.observe(), history=history)
        action = _action(screen, move, chance)
        steps.append((state, action))
        screen.perform(move)
        history = (*history, action)
    return steps


def _action(screen: Screen, move: Move, chance: random.Random) -> Action:
    match move.verb:
        case "type":
            return Type(text=move.text)
        case "key":
            return Key(keys=tuple(move.text.split("+")))
        case "finish":
            return Finish()
    element = screen.locate(move)
    return Click(
        x=element.x + int(element.width * chance.uniform(0.3, 0.7)),
        y=element.y + int(element.height * chance.uniform(0.3, 0.7)),
        button=3 if move.verb == "right_click" else 1,
        count=2 if move.verb == "double_click" else 1,
        target=Target(role=element.role, name=element.name),
    )
