"""Every kind of application is forked in the middle of its work: clones go on like their origin."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.errors import ForkRefusedError
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.launcher import Launcher
from envs_node.messages.actions import Action, Click, Key, Type
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task
from tests.actors.desktop.applications import APPLICATIONS
from tests.actors.desktop.forking import desktops, open_store
from tests.fakes_desktop import open_task

pytestmark = [pytest.mark.live, pytest.mark.slow]
_TEXT: tuple[Action, ...] = (Type(text="seven"), Key(keys=("enter",)), Type(text="Größe 日本"))
_AFTER: tuple[Action, ...] = (
    Type(text="x"), Key(keys=("enter",)), Type(text="1234"), Key(keys=("ctrl", "z")),
    Key(keys=("ctrl", "a")), Key(keys=("right",)),
)  # fmt: skip
_KEYS: tuple[Action, ...] = tuple(Key(keys=(name,)) for name in ("p", "t", "z", "x", "o", "n"))
SCRIPTS: dict[str, tuple[tuple[Action, ...], tuple[Action, ...]]] = {
    "calc": (_TEXT, _AFTER),
    "writer": (_TEXT, _AFTER),
    "chrome": ((Click(x=300, y=400), *_TEXT), _AFTER),
    "gimp": ((Key(keys=("ctrl", "n")), Key(keys=("enter",))), _KEYS),
    "thunderbird": ((Key(keys=("ctrl", "n")), *_TEXT), _AFTER),
}
_PAGE = "data:text/html,<textarea rows=30 cols=120></textarea>"
"""Without a network, what is typed into the address is a page that looks for one for ever."""
_TRIES = 5


def keep(desktop: ForkableSandbox, task: Task, steps: tuple[Action, ...]) -> None:
    """Stand behind these steps and be kept; one that moves by itself is waited for."""
    seen: tuple[Observation, ...] = (desktop.reset(task),)
    seen += tuple(desktop.act(step) for step in steps)
    for _ in range(_TRIES):
        try:
            desktop.keep_fork(prefix_keys(task, steps)[-1], seen)
        except ForkRefusedError:
            seen = (*seen[:-1], desktop.observe())
        else:
            return
    raise AssertionError(f"it never stood still in {_TRIES} tries")


@pytest.mark.parametrize("name", SCRIPTS)
def test_three_clones_of_an_application_go_on_like_their_origin(
    launcher: Launcher, name: str
) -> None:
    steps, after = SCRIPTS[name]
    task = open_task(*APPLICATIONS[name].argv, *((_PAGE,) if name == "chrome" else ()))
    with open_store(launcher) as store, desktops(launcher, store, 4) as (origin, *clones):
        keep(origin, task, steps)
        assert all(clone.reset_forked(task, steps) for clone in clones)

        equal = 0
        for step in after:
            frame = origin.act(step).signature.frame
            equal += sum(clone.act(step).signature.frame == frame for clone in clones)

    assert equal == len(after) * len(clones)
