"""Finds the verdicts of a run in its journal, and says in plain words what each is worth."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from envs_node.deploy.redrive import recorded_leaves
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.messages.base import EnvsError
from envs_node.messages.search import LeafReached
from envs_node.messages.verify import Verdict

_SHOWN_MAX = 5
_RUNS = Path("runs")
_MEANINGS = {
    "success": "The checker gave the full score on a desktop that answered before and after.",
    "failure": "The checker looked at a desktop that answered, and the task was not done.",
    "infra": "The desktop, the transport, the checker's process or a deadline broke. It says "
    "nothing about what the policy did.",
    "checker_error": "The checker broke over its own files, or gave no finite number. It says "
    "nothing about what the policy did.",
    "unsupported": "The checker needs what is not here: a library, or the network.",
    "vacuous": "The task passes when nothing is done.",
    "infeasible": "The task cannot be done: score 1 for a policy that said so, else 0.",
}
_PHASES = {
    "enter": "while it entered the desktop's network",
    "probe": "when the desktop was asked whether it answers",
    "prepare": "while the task's evaluator was read",
    "postconfig": "in a step that the task does before its check",
    "result": "while what the policy left was fetched",
    "gold": "while the task's reference was fetched",
    "metric": "in the metric",
    "score": "when the metric had answered",
    "sources": "when the checker's files were held against the installed ones",
}


class VerdictUnknownError(EnvsError):
    """No verdict of that id, or more than one."""


class FoundVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict, and the branch that it was reached on."""

    id: str
    """Of the branch and its lease: no two verdicts of a run have it."""
    branch_id: str
    lease: int
    task_id: str
    kind: str
    reason: str
    """How the branch ended."""
    verdict: Verdict
    meaning: str
    consequence: str
    """What was done next."""


class Reproduced(msgspec.Struct, frozen=True, kw_only=True):
    """How the replays of a task's successes were judged, on fresh desktops."""

    task_id: str
    replays: int
    same: int
    """Those that were successes again."""

    @property
    def flip_rate(self) -> float:
        """Share of the replays whose verdict was another."""
        return 1 - self.same / self.replays


def verdicts_of(folder: RunFolder) -> tuple[FoundVerdict, ...]:
    """All verdicts of a run, or of a desktop node's folder, in the order in which they came.

    Raises:
        JournalError: the journal is missing or damaged.
    """
    # Where search and driver share a journal, it has each report twice.
    leaves = {(leaf.branch_id, leaf.lease): leaf for leaf in recorded_leaves(folder)}
    judged = [leaf for leaf in leaves.values() if leaf.verdict is not None]
    return tuple(_found(leaf, leaf.verdict, judged) for leaf in judged if leaf.verdict is not None)


def reproduced(found: Iterable[FoundVerdict]) -> tuple[Reproduced, ...]:
    """How often what was found was found again, by task; tasks with the most that was not, first.

    What broke is left out: it says nothing of the task.
    """
    counts: dict[str, list[int]] = {}
    for one in found:
        if one.kind == "certify" and one.verdict.verdict in ("success", "failure"):
            again = counts.setdefault(one.task_id, [0, 0])
            again[0] += 1
            again[1] += one.verdict.verdict == "success"
    rows = [Reproduced(task_id=task, replays=n, same=k) for task, (n, k) in counts.items()]
    return tuple(sorted(rows, key=lambda row: (-row.flip_rate, row.task_id)))


def find_verdict(folder: RunFolder, wanted: str) -> FoundVerdict:
    """The verdict whose id begins so, or that of a branch, or of a branch and its lease.

    Raises:
        VerdictUnknownError: there is none, or more than one; names the way to list them.
        JournalError: the journal is missing or damaged.
    """
    found = verdicts_of(folder)
    mine = [one for one in found if wanted in (one.id, one.branch_id, _place(one))]
    mine = mine or [one for one in found if one.id.startswith(wanted)]
    if len(mine) == 1:
        return mine[0]
    listing = f"`envs-node verdict ls {folder.path}` lists them"
    if not mine:
        raise VerdictUnknownError(
            f"{folder.path} has {len(found)} verdicts and none begins with {wanted!r}; {listing}"
        )
    some = ", ".join(f"{one.id[:12]} ({_place(one)})" for one in mine[:_SHOWN_MAX])
    raise VerdictUnknownError(f"{len(mine)} verdicts begin with {wanted!r}: {some}; {listing}")


def latest_run(runs: Path = _RUNS) -> RunFolder:
    """The run below a folder that was written to last.

    Raises:
        RunFolderError: there is none.
    """
    journals = [path for path in runs.glob("*/journal") if path.is_dir()]
    if not journals:
        raise RunFolderError(f"there is no run in {runs.resolve()}; say which one by --run RUN")
    return RunFolder(max(journals, key=lambda path: path.stat().st_mtime_ns).parent)


def explain_phase(verdict: Verdict) -> str:
    """Where in the check it was decided, in words; empty when that is not known."""
    return _PHASES.get(verdict.phase, "")


def _found(leaf: LeafReached, verdict: Verdict, leaves: Sequence[LeafReached]) -> FoundVerdict:
    name = f"{leaf.branch_id}/{leaf.lease}"
    return FoundVerdict(
        id=hashlib.sha256(name.encode()).hexdigest()[:32],
        branch_id=leaf.branch_id,
        lease=leaf.lease,
        task_id=leaf.task_id,
        kind=leaf.kind,
        reason=leaf.reason,
        verdict=verdict,
        meaning=_MEANINGS[verdict.verdict],
        consequence=_consequence(leaf, verdict, leaves),
    )


def _consequence(leaf: LeafReached, verdict: Verdict, leaves: Sequence[LeafReached]) -> str:
    """What came of a verdict, by its class and by what the branch was for."""
    if verdict.verdict == "infra":
        again = [other for other in leaves if other.branch_id == leaf.branch_id]
        later = [other for other in again if other.lease > leaf.lease and other.verdict is not None]
        if later and later[0].verdict is not None:
            next_ = later[0].verdict.verdict
            return (
                f"The branch was sent out again, and judged {next_} under lease {later[0].lease}."
            )
        return "The branch is sent out again, up to infra_retries_max times; nothing was learned."
    if leaf.kind == "gate":
        return _consequence_of_gate(verdict)
    if verdict.verdict not in ("success", "failure"):
        return "It counts in no rate, no weight and no memory of failures, and is not fitted on."
    is_success = verdict.verdict == "success"
    if leaf.kind == "certify":
        if not is_success:
            return "The success was not reproduced by this path."
        return "The success was reproduced; after search.certify_replays in a row it is certified."
    if leaf.kind == "rollout":
        return "It counts in the policy's success rate."
    if is_success:
        return "Its path is replayed on a fresh desktop and judged again, if it was not known."
    return "It counts in the task's success rate, and in the memory of what led nowhere."


def _consequence_of_gate(verdict: Verdict) -> str:
    if verdict.verdict == "success":
        return "The task passes when nothing is done, so it is vacuous and was not searched."
    if verdict.verdict == "failure":
        return "The task is not done at its start, so it was searched."
    return "The task was refused: its start could not be judged."


def _place(one: FoundVerdict) -> str:
    return f"{one.branch_id}/{one.lease}"
