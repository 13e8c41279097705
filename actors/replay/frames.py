"""Which pictures of a branch the ledger keeps, and which it has already."""

from __future__ import annotations

from collections import OrderedDict

from envs_node.messages.search import Assign, LeafReached

_REMEMBERED_MAX = 8192


class KeptFrames:
    """The pictures that were sent last. One that is sent twice costs time, and is kept once."""

    def __init__(self, remembered_max: int = _REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._kept: OrderedDict[tuple[int, str], None] = OrderedDict()

    def missing(self, assign: Assign, report: LeafReached) -> list[str]:
        """The pictures of this branch that are wanted and were not sent, in order."""
        return [f for f in frames_of(report) if (assign.search_id, f) not in self._kept]

    def add(self, assign: Assign, frame: str) -> None:
        """The ledger has it. Another run has another ledger."""
        self._kept[assign.search_id, frame] = None
        if len(self._kept) > self._remembered_max:
            self._kept.popitem(last=False)


def frames_of(report: LeafReached) -> list[str]:
    """What was seen before each step, and where the last one led; each picture once."""
    seen = [step.observation.signature.frame for step in report.steps]
    last = [step.reached.frame for step in report.steps[-1:]]
    return list(dict.fromkeys(seen + last))


def is_certified(report: LeafReached) -> bool:
    """Whether this branch is a success that came about a second time."""
    verdict = report.verdict
    return report.kind == "certify" and verdict is not None and verdict.verdict == "success"
