"""A slot is restarted for its own faults only so often, and for its launcher's far more often."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from envs_node.actors.base import Actor
from envs_node.actors.post import Post
from envs_node.deploy.slot import SLOT_INTENSITY, DesktopSlot
from envs_node.deploy.slots import LauncherEndedError
from envs_node.messages.base import DesktopId, RunId
from envs_node.messages.lifecycle import Resolve
from envs_node.supervisor.tally import SupervisorError
from envs_node.supervisor.tree import Supervisor

CRASHES = SLOT_INTENSITY.burst + 1


class Fragile(Actor[Resolve]):
    """Cannot start as often as is left."""

    def __init__(self, left: list[int]) -> None:
        self._left = left

    async def start(self) -> None:
        if self._left[0]:
            self._left[0] -= 1
            raise OSError("no desktop")


@pytest.mark.parametrize("is_closing", [True, False])
async def test_what_a_slot_suffers_while_the_launcher_is_gone_is_not_held_against_it(
    autojump_clock: trio.testing.MockClock, is_closing: bool
) -> None:
    left = [CRASHES]
    none = [0]
    slot = DesktopSlot(
        Post(RunId("r")),
        DesktopId("d-0"),
        make_desktop=lambda _: Fragile(left),
        make_verifier=lambda _: Fragile(none),
        is_closing=lambda: is_closing,
    )
    told: list[str] = []
    tree = Supervisor("slots", [slot.child()], publish=lambda crashed: told.append(crashed.error))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        tree.stop()

    assert left == [0]
    assert bool(told) is not is_closing, "the slot's own supervisor gave up, or did not"
    if told:
        assert told[0].startswith(SupervisorError.__name__)
        assert "d-0/desktop crashed 11 times within 60 s" in told[0]


def test_a_launcher_that_was_killed_is_told_from_one_that_ended() -> None:
    assert LauncherEndedError(-9).was_killed
    assert str(LauncherEndedError(-9)).endswith("was killed by signal 9")
    assert not LauncherEndedError(1).was_killed
