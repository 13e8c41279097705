"""The conversation with a verifier: is the task done on this desktop?"""

from __future__ import annotations

from typing import Literal

import msgspec

from envs_node.messages.base import Message
from envs_node.messages.tasks import Task

VerdictClass = Literal[
    "success", "failure", "infra", "checker_error", "unsupported", "vacuous", "infeasible"
]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A file the checker looked at."""

    name: str
    sha256: str
    size_bytes: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the checker to the desktop."""

    method: str
    path: str
    status: int
    """HTTP status; 0 when there was no answer."""
    size_bytes: int
    error: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What OSWorld's checker said, and what it rests on."""

    verdict: VerdictClass
    score: float | None = None
    """The raw score, not clamped; None when the checker gave none."""
    reason: str = ""
    wall_ms: int = 0
    task_sha256: str = ""
    checker: str = ""
    """Package and version that judged, for example `desktop-env 1.0.2`."""
    checker_sha256: str = ""
    """Digest of the metric and getter sources that were loaded."""
    evidence: tuple[Evidence, ...] = ()
    exchanges: tuple[Exchange, ...] = ()


class Verify(Message, frozen=True, kw_only=True):
    """Judge the desktop once: checking changes it. Answered by `Verified`, whatever happens."""

    verify_id: str
    """A repeated id is answered, not judged again."""
    task: Task
    guest_pid: int
    last_action: Literal["DONE", "FAIL"]


class Verified(Message, frozen=True, kw_only=True):
    """Answers `Verify`."""

    verify_id: str
    verdict: Verdict
