"""What a template is, and how its instances become OSWorld task files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from envs_node.deploy.tasks.osworld import Json
from envs_node.messages.actions import Click, Drag, Finish, Key, Scroll, Type

Split = Literal["train", "validation", "held-out"]
Category = Literal[
    "writer", "calc", "impress", "chrome", "thunderbird", "vlc", "gimp", "os", "code", "multi"
]
"""What kind of work it is, in OSWorld's and OSGym's terms."""


class ClickOn(msgspec.Struct, frozen=True):
    """A click on a listed element, found by role and name on the screen as it is then.

    A `window` is one of that title, clicked on at its upper edge: some programs list no elements.
    """

    role: str
    name: str
    count: int = 1
    button: int = 1


class SwitchTo(msgspec.Struct, frozen=True):
    """Alt+Tab, which is done when a window of such a title has the keyboard."""

    window: str
    """A part of its title."""


OracleStep = ClickOn | SwitchTo | Click | Drag | Scroll | Key | Type | Finish
"""A step of a solution, which `tasks admit` and tests perform; nobody else sees it."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a template, before it has an id."""

    instruction: str
    config: tuple[Json, ...]
    """OSWorld set-up steps."""
    evaluator: Json
    """OSWorld evaluator."""
    oracle: tuple[OracleStep, ...]
    files: Mapping[str, bytes] = {}
    """Input files by name; the set-up uploads them."""
    gold: Mapping[str, bytes] = {}
    """What the checker compares with, by name."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A family of tasks that differ in words and numbers alone."""

    name: str
    app: str
    """The application that it is about, and which stands for it where one must."""
    category: Category
    split: Split
    """A validation or held-out template is for measuring; a train template has held-out
    instances, too."""
    make: Callable[[random.Random], Instance]
    also: tuple[str, ...] = ()
    """Further applications that its tasks need."""
    is_in_demo: bool = False
    """Whether `envs-node demo` takes it: light programs, and nothing that the built-in policy could
    never propose."""

    @property
    def apps(self) -> tuple[str, ...]:
        """All applications that its tasks need."""
        return (self.app, *self.also)


def task_json(task_id: str, template: Template, split: Split, instance: Instance) -> bytes:
    """The task file, the same bytes for the same instance."""
    document: Json = {
        "id": task_id,
        "snapshot": template.app,
        "instruction": instance.instruction,
        "source": "envs-node bundled tasks",
        "config": list(instance.config),
        "trajectory": "trajectories/",
        "related_apps": list(template.apps),
        "evaluator": instance.evaluator,
        "proxy": False,
        "fixed_ip": False,
        "possibility_of_env_change": "low",
        "template": template.name,
        "split": split,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
