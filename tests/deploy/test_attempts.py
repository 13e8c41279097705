"""A branch whose desktop crashed scored nothing, and its second attempt is another. Row F7."""

from __future__ import annotations

from pathlib import Path

import msgspec

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.replay import replay_run
from envs_node.messages.actions import Finish
from envs_node.messages.base import EnvsError, Message
from envs_node.messages.desktop import Act
from envs_node.messages.journal import read_journal
from envs_node.messages.search import LeafReached
from envs_node.policy.fingerprint import fingerprint
from tests.deploy.fake_node import CONFIG, TASKS, FakeNode
from tests.fakes import START, FakeScreen, click

LENGTH = 7
CRASHED_STEP = 5
SEARCH = msgspec.structs.replace(CONFIG.search, steps_max=LENGTH + 2, successes_task_max=1)
CONFIG_LONG = msgspec.structs.replace(CONFIG, search=SEARCH)


class DesktopBrokenError(EnvsError):
    """The desktop breaks because the test wants it to."""


class Trouble:
    """Breaks the desktop once, over the action of a step."""

    def __init__(self) -> None:
        self.breaks = 1

    def __call__(self, act: Act) -> Message | None:
        if act.step == CRASHED_STEP and self.breaks:
            self.breaks -= 1
            raise DesktopBrokenError(f"it broke over step {act.step}")
        return None


def _long_way() -> FakeScreen:
    """So many buttons, one after the other."""
    states = [START, *(f"after-{number}" for number in range(1, LENGTH)), "saved"]
    buttons = [click(f"Button {number}") for number in range(LENGTH)]
    steps = list(zip(states, buttons, strict=False))
    return FakeScreen(
        moves={(s, fingerprint(b)): states[number + 1] for number, (s, b) in enumerate(steps)},
        proposals={s: ((b, 8),) for s, b in steps} | {"saved": ((Finish(), 8),)},
        successes=frozenset({"saved"}),
    )


def _attempts(journal: Path) -> list[LeafReached]:
    """Reports of explored branches that were driven, each once, in the order they were heard."""
    heard = [e.envelope.message for e in read_journal(journal) if e.kind == "heard" and e.envelope]
    reports = [m for m in heard if isinstance(m, LeafReached) and m.kind == "explore"]
    return [report for n, report in enumerate(reports) if report not in reports[:n]]


async def test_a_branch_that_crashed_scores_nothing_and_goes_on_after_a_restart_as_another_attempt(
    tmp_path: Path,
) -> None:
    trouble, screen = Trouble(), _long_way()
    node = FakeNode(tmp_path, desktops=1, config=CONFIG_LONG, screen=screen, trouble=trouble)
    async with node.open():
        await node.start("r-1")
        await node.watch(lambda progress: any(task.reassigned for task in progress.tasks))
        await node.runs.stop("r-1")
    again = FakeNode(tmp_path, desktops=1, config=CONFIG_LONG, screen=screen, trouble=trouble)
    async with again.open():
        await again.start("r-1", is_resumed=True)
        progress, folder = await again.finish("r-1")

    (crashed,) = [r for r in _attempts(folder.journal) if r.reason == "infra"]
    later = [r for r in _attempts(folder.journal) if r.branch_id == crashed.branch_id]
    assert crashed.verdict is None
    assert (crashed.cause, len(crashed.steps)) == ("desktop", CRASHED_STEP)
    first, second = later
    assert first == crashed
    assert second.lease > first.lease
    assert (second.reason, second.verdict and second.verdict.score) == ("finish", 1.0)
    assert [task.state for task in progress.tasks] == ["solved"] * len(TASKS)
    with LedgerStore(folder.ledger, is_read_only=True) as store:
        kept = store.trajectories(certified_only=True)
    assert len({trajectory.id for trajectory in kept}) == len(kept) == len(TASKS)
    for trajectory in kept:
        taken = [step.fingerprint for step in trajectory.steps]
        assert taken == [
            *(fingerprint(click(f"Button {number}")) for number in range(LENGTH)),
            fingerprint(Finish()),
        ]
    verdicts = [dict(task.verdicts) for task in progress.tasks]
    assert [found["failure"] for found in verdicts] == [1, 1], "the gates, and no crash"
    assert (await replay_run(folder)).differences == ()
