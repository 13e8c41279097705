"""What a run's journal says came first, came first: nothing is judged before it is on record."""

from __future__ import annotations

from pathlib import Path

from envs_node.messages.actions import Finish
from envs_node.messages.desktop import Act, Reset
from envs_node.messages.journal import Entry, read_journal
from envs_node.messages.search import LeafReached
from envs_node.messages.verify import Verify
from tests.deploy.fake_node import FakeNode


async def test_a_leaf_is_judged_after_the_answers_to_all_its_actions_are_on_record(
    tmp_path: Path,
) -> None:
    """Row E19."""
    node = FakeNode(tmp_path)
    async with node.open():
        await node.start("r-1")
        _, folder = await node.finish("r-1")
    entries = list(read_journal(folder.journal))

    judged = 0
    for actor in sorted({entry.actor for entry in entries if entry.actor.startswith("replay/")}):
        judged += _judged([entry for entry in entries if entry.actor == actor])
    assert judged == sum(_leaf(entry) is not None for entry in entries if entry.kind == "heard") > 4


def _judged(entries: list[Entry]) -> int:
    """Leaves of one driver; fails when one was judged while an action was not answered."""
    open_acts: set[int] = set()
    acts = judged = 0
    for entry in entries:
        said = entry.envelope.message if entry.envelope and entry.kind == "said" else None
        if isinstance(said, Reset):
            acts = 0
        elif isinstance(said, Act):
            open_acts.add(entry.index)
            acts += 1
        elif isinstance(said, Verify):
            assert not open_acts, "judged before its last action was answered"
        elif entry.kind == "received":
            open_acts.discard(entry.index)
        elif leaf := _leaf(entry):
            judged += 1
            moves = [step for step in leaf.steps if not isinstance(step.action, Finish)]
            assert len(moves) == acts, "a step that was acted is missing"
    return judged


def _leaf(entry: Entry) -> LeafReached | None:
    message = entry.envelope.message if entry.envelope else None
    return message if isinstance(message, LeafReached) and message.verdict else None
